"""The reader: what runs behind a stub, and what of it may be seen."""

import pytest
import toy

from book import kernel_setup
from book.chapter_pages import chapter_reader
from course import chapter
from tests.conftest import write_files


@pytest.fixture
def notebook():
    return chapter_reader.with_references(chapter.parse(toy.CHAPTER, "toy.md"), "toy", imports="abc")


def test_the_reference_is_imported_right_after_its_stub(notebook):
    stub = next(i for i, cell in enumerate(notebook.cells) if chapter.is_exercise(cell))
    after = notebook.cells[stub + 1]
    assert after.source == "from solutions.toy import add_one"
    assert after.metadata["tags"] == ["remove-cell"]


def test_every_cell_keeps_a_line_number(notebook):
    lines = notebook.metadata["source_map"]
    assert len(lines) == len(notebook.cells)
    assert lines == sorted(lines)


def test_what_a_chapter_imports_is_part_of_a_cell(notebook):
    assert notebook.cells[0].metadata["imports"] == "abc"


def test_check_cells_are_marked_for_the_style_sheet(notebook):
    assert [cell.source for cell in notebook.cells if "check" in cell.metadata.get("tags", [])] == ["check(add_one)"]


def test_the_written_question_keeps_its_heading_outside_its_box(notebook):
    (cell,) = filter(chapter.is_written, notebook.cells)
    heading, box = cell.source.split(":::::::{div} written")
    assert heading.strip() == "## Written question"
    assert "largest number" in box


def test_the_hash_follows_code_scripts_and_data(tmp_path):
    seen = set()
    for name in ("solutions/a.py", "attnlab/b.js", "attnlab/data/c.npz"):
        for content in ("one", "two"):
            seen.add(chapter_reader.imports_hash(write_files(tmp_path, {name: content})))
    assert len(seen) == 6


def test_an_error_inside_a_reference_names_the_exercise(tmp_path):
    source, space = "def add_one(x):\n    return x.missing\n", {}
    write_files(tmp_path, {"solutions/toy.py": source})
    exec(compile(source, str(tmp_path / "solutions/toy.py"), "exec"), space)
    with pytest.raises(AttributeError) as caught:
        space["add_one"](3)
    assert kernel_setup.exercise_at_fault(caught.value) == "add_one (solutions/toy.py)"


def test_a_report_keeps_the_error_and_no_source():
    log = (
        "nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:\n"
        "------------------\nadd_one(41)\n------------------\n\n"
        "the reference of add_one (solutions/toy.py) failed: ValueError: too large\n"
    )
    assert chapter_reader.one_line(log) == "the reference of add_one (solutions/toy.py) failed: ValueError: too large"


PAGE = "---\nkernelspec: {name: python3}\n---\n\n# A page\n\n```{code-cell}\nprint(1)\n```\n"


def test_a_page_runs_again_when_one_of_its_own_files_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(chapter_reader, "ROOT", tmp_path)
    write_files(tmp_path, {"appendices/page/program.py": "print(1)"})
    before = chapter_reader.read_page(PAGE, "appendices/page")
    assert len(before.cells) == len(before.metadata["source_map"]) == 3
    assert before.cells[0].metadata["tags"] == ["remove-cell"]
    assert chapter_reader.read_page(PAGE, "appendices/page").cells[0].metadata == before.cells[0].metadata
    write_files(tmp_path, {"appendices/page/program.py": "print(2)"})
    assert chapter_reader.read_page(PAGE, "appendices/page").cells[0].metadata != before.cells[0].metadata


def test_a_page_that_cannot_be_read_is_named():
    with pytest.raises(chapter_reader.ChapterError, match="appendices/page.md has no front matter"):
        chapter_reader.read_page("# A page\n", "appendices/page")
