"""How long a chapter takes, in words. All of it is estimated.

Reading is computed: prose at 200 words per minute and the code that is shown at 8 lines per minute, rounded to five
minutes. The minutes and the difficulty of an exercise are declared beside it, in `course/exercises/`.
"""

from __future__ import annotations

import re

from course import catalog, chapter
from course.kit.exercise import Exercise

WORDS, LINES = 200, 8  # read per minute
DIFFICULTY = {1: "easy", 2: "medium", 3: "hard"}
_HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


def reading_minutes(stem: str) -> int:
    """Minutes to read a chapter. Its exercises are not counted, and code that is folded is not either."""
    read = chapter.read(stem)
    exercises = {index for found in read.exercises for index in (found.stub, found.check)}
    words = lines = 0
    for index, cell in enumerate(read.notebook.cells):
        if cell.cell_type == "markdown":
            words += len(re.findall(r"\w[^\s]*", cell.source))
        elif index not in exercises and not _HIDDEN & set(cell.metadata.get("tags", [])):
            lines += sum(1 for line in cell.source.splitlines() if line.strip())
    return max(5, 5 * round((words / WORDS + lines / LINES) / 5))


def exercise_minutes(stem: str) -> int:
    """Minutes for the exercises of a chapter that are not optional."""
    return sum(exercise.minutes or 0 for exercise in catalog.exercises_of(stem).values() if not exercise.bonus)


def minutes(stem: str) -> int:
    """Minutes to read a chapter and to do its exercises that are not optional."""
    return reading_minutes(stem) + exercise_minutes(stem)


def of_chapter(stem: str) -> str:
    """As "about 45 minutes to read, 40 for its exercises"."""
    doing = exercise_minutes(stem)
    return f"about {reading_minutes(stem)} minutes to read" + (f", {doing} for its exercises" if doing else "")


def of_exercise(exercise: Exercise) -> str:
    """As "Estimate: 10 minutes, medium"; nothing where neither is declared."""
    said = [f"{exercise.minutes} minutes"] if exercise.minutes else []
    said += [DIFFICULTY[exercise.difficulty]] if exercise.difficulty else []
    said += ["optional"] if said and exercise.bonus else []
    return f"Estimate: {', '.join(said)}" if said else ""
