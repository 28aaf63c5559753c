"""Pictures come late, but their room is there at once."""

from types import SimpleNamespace

import pytest
from PIL import Image

from book.pages import late_pictures

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="300.3pt" height="150pt" viewBox="0 0 1 1"/>'


@pytest.fixture
def app(tmp_path):
    (tmp_path / "drawn.svg").write_text(SVG)
    (tmp_path / "free.svg").write_text(SVG.replace('width="300.3pt"', ""))
    Image.new("L", (40, 30)).save(tmp_path / "a.png")
    (tmp_path / "noise.png").write_bytes(b"no picture")
    images = {"drawn.svg": "1.svg", "free.svg": "2.svg", "a.png": "3.png", "noise.png": "4.png"}
    return SimpleNamespace(srcdir=tmp_path, builder=SimpleNamespace(images=images))


def late(app, body):
    context = {"body": body}
    late_pictures.load_late(app, "page", "page.html", context, None)
    return context["body"]


@pytest.mark.parametrize(
    "name, added",
    [
        ("1.svg", 'width="400" height="200" loading="lazy" '),
        ("2.svg", 'loading="lazy" '),
        ("3.png", 'width="40" height="30" loading="lazy" '),
        ("4.png", 'loading="lazy" '),
    ],
)
def test_a_picture_gets_its_size_and_is_loaded_late(app, name, added):
    assert late(app, f'<p><img alt="x" src="../_images/{name}" />') == (
        f'<p><img {added}alt="x" src="../_images/{name}" />'
    )


def test_other_pictures_stay_as_they_are(app):
    for body in ('<img src="data:image/png;base64,_images/" />', '<img loading="eager" src="_images/1.svg">', "<p>"):
        assert late(app, body) == body
