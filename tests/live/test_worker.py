"""The worker in a browser: what it tells, what it fetches, and what it does where pieces, store or network fail."""

from __future__ import annotations

import json
import shutil

import pytest

from course.folder import ROOT
from tests.conftest import Quiet, Watched, start_server

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.browser]
TEXT = "The CEO announced record earnings on Friday"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>engine</title>
<link rel="icon" href="data:,">
<script>
  // `ask(what)`: all that the worker tells until it is ready or has failed, each with the time since the question.
  const worker = new Worker("/engine/worker.js", { type: "module" });
  window.ask = (what) => new Promise((done) => {
    const begin = performance.now(), told = [];
    worker.onmessage = ({ data }) => {
      told.push({ at: performance.now() - begin, ...data, ...(data.maps ? { maps: Array.from(data.maps) } : {}) });
      if (data.ready || data.error) done(told);
    };
    worker.postMessage(what);
  });
</script></head><body></body></html>"""


class Site:
    """The engine and the pieces on loopback. What `spoil[name]` returns is sent in place of that piece."""

    def __init__(self, folder):
        self.asked, self.spoil, site = [], {}, self

        class Handler(Quiet):
            def do_GET(self):
                name = self.path.split("/")[-1]
                site.asked.append(name)
                if name in site.spoil:
                    body = site.spoil[name]()
                    self.send_response(503 if body is None else 200)
                    self.send_header("Content-Length", str(len(body or b"")))
                    self.end_headers()
                    self.wfile.write(body or b"")
                else:
                    super().do_GET()

        self.address = start_server(Handler, folder)


@pytest.fixture(scope="module")
def folder(pieces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "live" / "engine", folder / "engine")
    (folder / "engine" / "pieces").symlink_to(pieces)
    (folder / "index.html").write_text(PAGE, "utf-8")
    return folder


@pytest.fixture
def site(folder):
    return Site(folder)


@pytest.fixture
def context(browser):
    context = browser.new_context()
    yield context
    context.close()


def opened(context, site, script=None):
    page = context.new_page()
    if script:
        page.add_init_script(script)
    page.goto(site.address)
    return page


def ask(page, **what):
    return page.evaluate("ask", what)


def of(told, name):
    return [one[name] for one in told if name in one]


@pytest.fixture(scope="module")
def manifest(pieces):
    return json.loads((pieces / "manifest.json").read_text("utf-8"))


def test_a_sentence_is_read_layer_by_layer_while_the_model_comes(context, site, manifest):
    """Nothing is fetched before; then the first map needs a few pieces, and all layers follow in order."""
    page = opened(context, site)
    watched = Watched(page)
    assert [name for name in site.asked if name.endswith(".bin")] == []
    told = ask(page, read=TEXT)
    assert of(told, "error") == of(told, "notice") == []
    assert of(told, "tokens") == [["The", " CEO", " announced", " record", " earnings", " on", " Friday"]]
    assert of(told, "layer") == list(range(30))
    before = next(i for i, one in enumerate(told) if "layer" in one)
    assert of(told[:before], "done")[-1] <= 6e6
    assert of(told, "done")[-1] == of(told, "total")[-1]
    for maps in of(told, "maps"):
        rows = [sum(maps[at : at + 7]) for at in range(0, 9 * 49, 7)]
        assert max(abs(total - 1) for total in rows) < 1e-5
        assert all(maps[h * 49 + t * 7 + j] == 0 for h in range(9) for t in range(7) for j in range(t + 1, 7))
    (next_words,), (lens,) = of(told, "next"), of(told, "lens")
    assert len(next_words) == 10 and next_words[0][:2] == pytest.approx(lens[-1]) and len(lens) == 31
    assert told[-1]["ready"] and told[-1]["kept"] and told[-1]["simd"]
    watched.assert_clean()


def test_heads_breaks_and_writing(context, site):
    page = opened(context, site)
    whole = of(ask(page, read=TEXT), "next")[0]
    off = ask(page, head=[12, 4, 1])
    assert of(off, "layer") == list(range(12, 30)) and of(off, "next")[0] != whole
    mean = of(ask(page, head=[12, 4, 2]), "next")[0]
    assert mean not in (whole, of(off, "next")[0])
    assert of(ask(page, head=[12, 4, 0]), "next")[0] == whole
    broken = ask(page, broken="heads dealt round")
    assert of(broken, "layer") == list(range(30)) and of(broken, "next")[0] != whole
    assert of(ask(page, broken=None), "next")[0] == whole
    written = ask(page, write=8, temperature=0)
    texts = of(written, "text")
    assert len(texts) == 8 and all(after.startswith(before) for before, after in zip(texts, texts[1:], strict=False))
    assert texts[0] == whole[0][0]
    ask(page, read=TEXT)
    drawn = of(ask(page, write=8, temperature=1.2, top_k=40, seed=5), "text")[-1]
    ask(page, read=TEXT)
    assert of(ask(page, write=8, temperature=1.2, top_k=40, seed=5), "text")[-1] == drawn


def test_a_second_visit_needs_no_network(context, site):
    first = ask(opened(context, site), read=TEXT)
    site.asked.clear()
    second = ask(opened(context, site), read=TEXT)
    assert [name for name in site.asked if name.endswith(".bin")] == []
    context.route("**/pieces/*", lambda route: route.abort())
    third = ask(opened(context, site), read=TEXT)
    assert of(first, "next") == of(second, "next") == of(third, "next")


def test_what_was_cut_off_goes_on_where_it_was(context, site, manifest):
    lost = manifest["layers"][9]["file"]
    site.spoil[lost] = lambda: None
    told = ask(opened(context, site), read=TEXT)
    assert lost in of(told, "error")[0] and "503" in of(told, "error")[0]
    assert of(told, "layer") == list(range(9))
    site.spoil.clear()
    site.asked.clear()
    page = opened(context, site)
    again = ask(page, read=TEXT)
    assert of(again, "layer") == list(range(30)) and lost in site.asked
    assert not {manifest["layers"][i]["file"] for i in range(9)} & set(site.asked)


def test_a_broken_piece_is_told_and_fetched_again(context, site, pieces, manifest):
    name = manifest["layers"][3]["file"]
    whole = (pieces / name).read_bytes()
    answers = iter([whole[:-1] + bytes([whole[-1] ^ 1]), whole])
    site.spoil[name] = lambda: next(answers)
    told = ask(opened(context, site), read=TEXT)
    assert of(told, "error") == [] and of(told, "layer") == list(range(30))
    (notice,) = of(told, "notice")
    assert name in notice and "fetched again" in notice


@pytest.mark.parametrize(
    ("script", "kept", "simd"),
    [
        ("WebAssembly.validate = () => false", True, False),
        ("Object.defineProperty(globalThis, 'caches', { value: undefined })", False, True),
        ("Cache.prototype.put = () => Promise.reject(new DOMException('full', 'QuotaExceededError'))", False, True),
    ],
    ids=["no SIMD", "no store", "a full disk"],
)
def test_without_simd_or_store_it_works_and_says_so(context, site, folder, script, kept, simd):
    """In a worker, no script of the page is run before: so the worker's own file begins with it."""
    source = (folder / "engine" / "worker.js").read_text("utf-8")
    for name, body in {"worker": f'import "./before.js";\n{source}', "before": script}.items():
        own = dict(body=body, content_type="text/javascript")
        context.route(f"**/engine/{name}.js", lambda route, request, own=own: route.fulfill(**own))
    told = ask(opened(context, site), read=TEXT if simd else "The cat")
    assert of(told, "error") == [] and of(told, "layer") == list(range(30))
    assert (told[-1]["kept"], told[-1]["simd"]) == (kept, simd)


def test_the_worker_says_what_it_cannot_read(context, site):
    page = opened(context, site)
    assert "type a word" in of(ask(page, read=""), "error")[0]
    assert "256 tokens" in of(ask(page, read="no " * 300), "error")[0]
    assert of(ask(page, read="A"), "layer") == list(range(30))
    site.spoil["manifest.json"] = lambda: None
    other_reader = page.context.browser.new_context()
    assert "not on this site" in of(ask(opened(other_reader, site), read="A"), "error")[0]
