"""The notebook that is graded: the released cells in their order, with the student's text in the student's cells.

From a submission only the sources of solution cells are taken, and added cells. Everything else comes from the release:
which cells there are, plain ones too, in which order, of which type, for how many points, with which text. So what was
deleted, moved or changed there costs nothing, and a changed cell of the handout is one that the student added.

An answer is found by nbgrader's mark, else by its cell's id, else as the one cell that defines its name. Doubts are
resolved in the student's favor where possible, and reported to a human.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat

from attnlab.checking import code_slice
from autograder.grading.submission import SubmittedCell, attach_pictures
from autograder.sandbox.limits import MAX_SEARCHED
from course import cells
from course.nbgrader_workarounds import utils

SEVERAL = "this answer was handed in more than once, in different words; the one that its check saw is graded"
UNDECIDED = "this answer was handed in more than once, in different words; one is graded, and a human confirms which"


@dataclass(frozen=True)
class ReleasedCell:
    """One cell of a released notebook.

    name: nbgrader's, or None for a plain cell; source: with hidden tests; given: as students got it, if different
    """

    name: str | None
    cell_type: str
    source: str
    locked: bool = False
    solution: bool = False
    grade: bool = False
    task: bool = False
    points: float | None = None
    given: str | None = None
    id: str | None = None

    @property
    def text(self) -> str:
        """The cell as a student received it."""
        return (self.source if self.given is None else self.given).strip()

    def metadata(self) -> dict[str, Any]:
        """nbgrader's metadata; nothing of a plain cell."""
        if self.name is None:
            return {}
        kinds = {"grade": self.grade, "solution": self.solution, "locked": self.locked, "task": self.task}
        made = cells.nbgrader_metadata(self.name, self.cell_type, points=self.points, **kinds)
        given = self.source if self.given is None else self.given
        made["nbgrader"]["checksum"] = utils().compute_checksum(cells.new_cell(self.cell_type, given, made))
        return made


@dataclass
class Reassembled:
    """The notebook to be graded, and what a human may want to know about how it was handed in.

    not_run: places of cells that are shown and not run
    needs_confirmation: names of graded cells whose points a human should confirm
    told: what a student should know, by the name of the answer
    """

    notebook: Any = None  # a NotebookNode, once it is made
    notes: list[str] = field(default_factory=list)
    not_run: set[int] = field(default_factory=set)
    needs_confirmation: set[str | None] = field(default_factory=set)
    told: dict[str | None, str] = field(default_factory=dict)


def reassemble(
    submitted: Sequence[SubmittedCell], released: Sequence[ReleasedCell], run_extra: bool = True
) -> Reassembled:
    """The released cells in their order, with the student's answers, and added cells after those they followed.

    run_extra: whether code in added cells is run; text always stays
    """
    return _Reassembly(submitted, released).made(run_extra)


def fit(submitted: Sequence[SubmittedCell], released: Sequence[ReleasedCell], named: bool = True) -> tuple[int, int]:
    """How much of a release is in a submission: cells that were recognized, and answers that were worked on.

    named: whether the file has the released notebook's name. Of one that has not, and that has neither a mark nor an id
    left, half of the answers must be found before any is recognized.
    """
    found = _Reassembly(submitted, released)
    if not named and found.unmarked and 2 * len(found.answers) < sum(cell.solution for cell in released):
        return 0, 0
    worked = sum(not found.is_stub(place, number) for place, number in found.answers.items())
    return len(found.answers) + found.recognized, worked


class _Reassembly:
    """Which submitted cell is which released one. Both are identified by their positions.

    answers: of solution cells, released place -> submitted place; others: the same of all other released cells
    copies: submitted place of an answer that was not taken -> released place; unmarked: no mark and no id was left
    """

    def __init__(self, submitted: Sequence[SubmittedCell], released: Sequence[ReleasedCell]):
        self.submitted, self.released = submitted, released
        self.by_name = {cell.name: place for place, cell in enumerate(released) if cell.name is not None}
        self.by_id = {cell.id: place for place, cell in enumerate(released) if cell.id is not None}
        self.names = {
            place: defined_names(cell.text) if cell.cell_type == "code" else set()
            for place, cell in enumerate(released)
            if cell.solution
        }
        self.plain = {cell.text for cell in released if cell.name is None}
        self.not_answers = {cell.text for cell in released if not cell.solution}
        self.stubs = {released[place].text for place, names in self.names.items() if names}
        self.defined: dict[int, set[str]] = {}  # names by submitted place, as far as they were needed
        self.left = MAX_SEARCHED  # characters of submitted cells that may still be searched for definitions
        self.answers: dict[int, int] = {}
        self.others: dict[int, int] = {}
        self.copies: dict[int, int] = {}
        self.elsewhere: set[int] = set()  # released positions of answers that are in an earlier answer's cell
        self.written: dict[int, str] = {}  # released place of a written answer -> its text, from other cells
        self.moved: set[int] = set()  # submitted places of those cells
        self.changed: dict[int, int] = {}  # submitted places of plain cells with another text -> released place
        self.checks: dict[int, list[int]] = defaultdict(list)  # released place of a locked cell -> submitted places
        self.notes: list[str] = []
        self.needs_confirmation: set[int] = set()  # released places of solution cells
        self.several: set[int] = set()  # of those, the ones handed in more than once with different text
        marked = self._match_by_mark_and_id()
        self.unmarked = not any(marked.values()) and not self.recognized
        self._match_by_text()
        for place in self.names:
            self._choose(place, marked.get(place, []))
        self._find_merged()
        self._find_written()

    def _match_by_mark_and_id(self) -> dict[int, list[int]]:
        """The submitted places of each solution cell; everything else that is recognized is kept."""
        marked: dict[int, list[int]] = defaultdict(list)
        self.recognized = 0  # cells other than answers
        self.free: list[int] = []  # submitted places of cells that are nothing yet
        for number, cell in enumerate(self.submitted):
            place = self.by_name[cell.name] if cell.name in self.by_name else self._by_id(number)
            if place is None:
                self.free.append(number)
                continue
            given = self.released[place]
            if given.solution:
                marked[place].append(number)
                continue
            self.recognized += 1
            if given.name is None and cell.source.strip() != given.text:
                self.changed[number] = place
                self.free.append(number)
                continue
            if given.name is not None:
                self.checks[place].append(number)
            self.others[place] = number
        return marked

    def _by_id(self, number: int) -> int | None:
        """Return the released cell with the same id as a submitted cell, or None if the text shows that it differs.

        An older release may have another cell under the same id.
        """
        cell, text = self.submitted[number], self.submitted[number].source.strip()
        place = None if cell.id is None else self.by_id.get(cell.id)
        if place is None or self.released[place].name is None or text == self.released[place].text:
            return place
        if place not in self.names or text in self.not_answers:
            return None
        defined = self._defined(number)
        if self.names[place] & defined:
            return place
        foreign = any(names & defined for names in self.names.values())
        return place if cell.kind == self.released[place].cell_type and not foreign else None

    def _match_by_text(self) -> None:
        """Match cells without mark and id by their text; each released cell is matched once."""
        waiting: dict[str, list[int]] = defaultdict(list)
        locked: dict[str, int] = {}
        for place, cell in enumerate(self.released):
            if not cell.solution and cell.text:
                if place not in self.others:
                    waiting[cell.text].append(place)
                if cell.name is not None:
                    locked[cell.text] = place
        left = []
        for number in self.free:
            text = self.submitted[number].source.strip()
            if text in locked:
                self.checks[locked[text]].append(number)
            if waiting.get(text):
                self.others[waiting[text].pop(0)] = number
            else:
                left.append(number)
        self.free = left

    def _choose(self, place: int, marked: list[int]) -> None:
        """From the candidates for an answer, take the copy that counts: changed, and as the answer's check saw it."""
        name, names, found = self.released[place].name, self.names[place], list(marked)
        worked = [number for number in found if not self.is_stub(place, number)]
        worked = [number for number in worked if self.submitted[number].source.strip()] or worked
        if len(worked) > 1 and names:  # a copy may have become something else, such as a helper
            worked = [number for number in worked if names & self._defined(number)] or worked
        how = None
        if not worked and names:
            own = [number for number in self.free if self._may_define(number, names)]
            worked = [number for number in own if not self.is_stub(place, number)]
            found += own
            how = "was found in another cell, by the name that it defines"
        elif not found:
            worked = found = self._in_the_place_of(place)
            how = "was found by its position"
        if self.unmarked:
            self.needs_confirmation.add(place)
        if not found:
            return
        self.answers[place] = self._counted(place, worked) if worked else found[-1]
        self.copies |= {number: place for number in found if number != self.answers[place]}
        if worked and how and not self.unmarked:
            self.notes.append(f"{name} {how}")
        if len(marked) > 1 or len(worked) > 1:
            self.notes.append(f"{name} was handed in more than once; {self._which(place, worked)}")

    def _defined(self, number: int) -> set[str]:
        """The names that a submitted cell defines, within a limit on the text of all of them."""
        if number not in self.defined:
            source = self.submitted[number].source
            self.left -= len(source)
            self.defined[number] = defined_names(source) if self.left >= 0 else set()
        return self.defined[number]

    def is_stub(self, place: int, number: int) -> bool:
        return self.submitted[number].source.strip() == self.released[place].text

    def _may_define(self, number: int, names: set[str]) -> bool:
        """Whether a cell with no other role defines a name, and did not do so as a plain cell of the release."""
        cell, changed = self.submitted[number], self.changed.get(number)
        if cell.kind != "code" or cell.source.strip() in self.plain or not names & self._defined(number):
            return False
        return changed is None or not names & defined_names(self.released[changed].text)

    def _in_the_place_of(self, place: int) -> list[int]:
        """The only cell of the same kind where an answer without a name should be."""
        before = self.others.get(place - 1)
        if before is None:
            return []
        end = min((number for number in self.others.values() if number > before), default=len(self.submitted))
        kind = self.released[place].cell_type
        found = [number for number in self.free if before < number < end and self.submitted[number].kind == kind]
        return found if len(found) == 1 else []

    def _counted(self, place: int, worked: list[int]) -> int:
        """Choose among changed copies of a cell: the last one that the last check saw; if in doubt, the last of all."""
        if len({self.submitted[number].source.strip() for number in worked}) == 1:
            return worked[-1]
        self.several.add(place)
        checks = sorted(number for check in self._checks_of(place) for number in self.checks.get(check, []))
        seen = [max(number for number in worked if number < check) for check in checks if worked[0] < check]
        if len({self.submitted[number].source.strip() for number in seen}) != 1:
            self.needs_confirmation.add(place)
        return seen[-1] if seen else worked[-1]

    def _which(self, place: int, worked: list[int]) -> str:
        if place not in self.several:
            return "the one that was changed counts" if worked else "each time as released"
        return (
            "it is unclear which one counts" if place in self.needs_confirmation else "the one before its check counts"
        )

    def _checks_of(self, place: int) -> list[int]:
        """The released places of the cells that grade an answer: those before the next answer."""
        end = min((other for other in self.names if other > place), default=len(self.released))
        return [other for other in range(place + 1, end) if self.released[other].grade]

    def _find_merged(self) -> None:
        """Answers that are unchanged in their own cell and are defined in an earlier answer's cell."""
        defined: set[str] = set()
        for place, names in self.names.items():
            number = self.answers.get(place)
            if number is not None and not self.is_stub(place, number):
                defined |= self._defined(number)
            elif names and names <= defined:
                self.elsewhere.add(place)
                self.notes.append(f"{self.released[place].name} was found in the cell of an earlier answer")

    def _find_written(self) -> None:
        """Find written answers whose own cell is empty: in the question's cell, or in cells beside the given one."""
        for place, names in self.names.items():
            number = self.answers.get(place)
            empty = number is None or self.is_stub(place, number) or not self.submitted[number].source.strip()
            if names or not empty or self.released[place].cell_type != "markdown":
                continue
            beside = self._beside(place)
            texts = [self._added_to_question(place - 1), *(self.submitted[other].source for other in beside)]
            if text := "\n\n".join(filter(None, texts)):
                self.written[place] = text
                self.moved.update(beside)
                where = "beside the given one" if beside else "of the question"
                self.notes.append(f"{self.released[place].name} was empty; its text was found in the cell {where}")

    def _added_to_question(self, place: int) -> str:
        """The lines that a student wrote into the question's cell; nothing if the question itself is not in there."""
        number = self.others.get(place)
        if number is None or self.released[place].name is None:
            return ""
        given = {line.strip() for line in self.released[place].text.splitlines()}
        lines = self.submitted[number].source.splitlines()
        if not given <= {"", *(line.strip() for line in lines)}:
            return ""  # of another release, or replaced
        return "\n".join(line for line in lines if line.strip() not in given).strip()

    def _beside(self, place: int) -> list[int]:
        """The cells of the student's own text around a written answer: below it or the question, else above."""
        known = {*self.answers.values(), *self.others.values()}
        around = [number for number in (self.others.get(place - 1), self.answers.get(place)) if number is not None]
        if not around:
            return []
        first, last = min(around), max(around)
        end = min((number for number in known if number > last), default=len(self.submitted))
        begin = max((number for number in known if number < first), default=-1)
        own = [number for number in self.free if number not in known and self._is_own_text(number)]
        return [number for number in own if first < number < end] or [
            number for number in own if begin < number < first
        ]

    def _is_own_text(self, number: int) -> bool:
        """Whether a cell is text that a student wrote, also if it is a code cell of comments alone."""
        text = self.submitted[number].source.strip()
        if not text or text in self.plain or text in self.not_answers:
            return False
        return self.submitted[number].kind != "code" or all(
            line.lstrip().startswith("#") for line in text.splitlines() if line.strip()
        )

    def made(self, run_extra: bool) -> Reassembled:
        result = Reassembled(notes=list(self.notes))
        if self.unmarked:
            result.notes.insert(0, "no cell has nbgrader's mark or its id; answers were found by the names they define")
        added = self._added(run_extra, result)
        made: list[nbformat.NotebookNode] = []

        def add(place: int) -> None:
            for number in added.get(place, ()):
                original = self.copies.get(number, place + 1)
                if original <= place and self.names[original] & self._defined(number):
                    result.not_run.add(len(made))  # it would replace the answer that counts
                made.append(cells.new_cell(self.submitted[number].kind, self.submitted[number].source))

        add(-1)
        for place, cell in enumerate(self.released):
            if cell.name is not None and place not in self.answers and place not in self.others:
                result.notes.append(f"{cell.name} was missing")
            made.append(cells.new_cell(cell.cell_type, self._source(place), cell.metadata()))
            add(place)
        shown = {name: data for cell in self.submitted for name, data in cell.pictures.items()}
        for cell in made if shown else ():
            attach_pictures(cell, shown)
        for place in self.needs_confirmation:
            graded = [place, *self._checks_of(place)]
            result.needs_confirmation |= {cell.name for other in graded if (cell := self.released[other]).grade}
        for place in self.several:
            why = UNDECIDED if place in self.needs_confirmation else SEVERAL
            result.told[self.released[place].name] = why
        result.notebook = cells.new_notebook(made, "cell")
        return result

    def _added(self, run_extra: bool, result: Reassembled) -> dict[int, list[int]]:
        """The submitted places of added cells, by the released place that they follow; -1 for the top."""
        taken = {number: place for place, number in [*self.answers.items(), *self.others.items()]}
        locked = {number for numbers in self.checks.values() for number in numbers}
        added: dict[int, list[int]] = defaultdict(list)
        before = -1
        for number, cell in enumerate(self.submitted):
            text = cell.source.strip()
            if number in taken:
                before = taken[number]
                if cell.kind != self.released[before].cell_type and self.released[before].name is not None:
                    result.notes.append(f"{self.released[before].name} was handed in as another kind of cell")
                continue
            if number in locked and cell.name in self.by_name:
                result.notes.append(f"{cell.name} was handed in more than once; the released one counts")
                continue
            # In the answer's cell by now, or a stub that could only replace an answer.
            if number in self.moved or text in self.stubs:
                continue
            before = self.changed.get(number, before)
            if cell.kind == "code" and text and text not in self.plain:
                if number not in locked and number not in self.copies:
                    changed = "a cell of the handout was changed"
                    what = changed if number in self.changed else "code in a cell that was not handed out"
                    result.notes.append(f"{what}: {_first_line(cell.source)}")
                if not run_extra:
                    continue
            added[before].append(number)
        return added

    def _source(self, place: int) -> str:
        cell, number = self.released[place], self.answers.get(place)
        if place in self.written:
            return self.written[place]
        if place in self.elsewhere:
            return f"# {cell.name} was handed in within the cell of an earlier answer."
        if number is not None and not self.is_stub(place, number):
            return self.submitted[number].source
        return cell.given if cell.solution and cell.given is not None else cell.source


def defined_names(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top level; of broken code, those it begins."""
    try:
        statements = ast.parse(code_slice.without_magics(source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(_DEFINITION.findall(source))
    names: set[str] = set()
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


_DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)


def _first_line(source: str) -> str:
    line = next((line for line in source.splitlines() if line.strip()), "").strip()
    return line[:60] + ("…" if len(line) > 60 else "")
