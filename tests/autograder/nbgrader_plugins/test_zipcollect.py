"""`nbgrader zip_collect` goes the way of `autograder collect`."""

from course import release
from tests.autograder.platforms.handed_in import course, notebook, zipped


def test_nbgraders_command_collects_a_download_and_loose_files_and_may_run_again(tmp_path):
    archive = course(tmp_path) / "downloaded" / "softmax" / "archive"
    archive.mkdir(parents=True)
    inside = zipped(("boris_2_9_softmax.ipynb", notebook(done=0)))
    (archive / "class.zip").write_bytes(
        zipped(("ada_1_8_softmax (1).ipynb", notebook()), ("eve_3_7_softmax.pdf", b"")),
    )
    (archive / "chiara_4_6_work.zip").write_bytes(inside)  # a student's: no name in it is anybody's
    for said in ("1 left out, 0 missing, 0 replaced, 2 collected", "1 left out, 0 missing, 0 replaced, 0 collected"):
        done = release.nbgrader("zip_collect", "softmax", course=tmp_path, check=False)
        assert done.returncode == 1 and said in done.stdout, done.stderr
    found = {path.parent.parent.name: path.read_bytes() for path in tmp_path.glob("submitted/*/softmax/softmax.ipynb")}
    assert found == {"ada": notebook(), "chiara": notebook(done=0)}
