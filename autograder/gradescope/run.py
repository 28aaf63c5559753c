"""Grade one submission in a container of Gradescope's: `python -m autograder.gradescope.run /autograder`.

Reads `submission`, `submission_metadata.json` and the unpacked zip in `source`; writes `results/results.json` as
https://gradescope-autograders.readthedocs.io/en/latest/specs/ describes it. Gradescope shows printed output only
to instructors.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from autograder.gradescope import ASSIGNMENT, OPTIONS
from autograder.grading import grade_submission, messages
from autograder.grading.results import RESULTS
from autograder.grading.submission import Refused, is_junk, read_bytes, suffix
from autograder.sandbox import other_user
from autograder.sandbox.limits import MAX_NOTEBOOKS
from course.cells import exercise_of
from course.files import write_whole

MAX_METADATA = 64 << 20  # bytes; it repeats the results of all earlier submissions
MAX_LISTED = 10_000  # notebooks that are looked at
DOUBTFUL = "A human has to look at this answer before it counts: it also answers test cases that do not exist."


def main(root: Path) -> int:
    """Write the results, whatever happens; 1 if the grader itself failed."""
    begin = time.monotonic()
    try:
        results = graded(root)
        status = 0
    except Exception:  # the student gets a sentence, and the instructor the traceback
        traceback.print_exc()
        words = "The autograder failed, and nothing was judged. Please tell your instructor; this is not your fault."
        results, status = {"score": 0.0, "output": words}, 1
    results |= {"output_format": "text", "stdout_visibility": "hidden"}
    results["execution_time"] = round(time.monotonic() - begin)
    place = root / "results" / "results.json"
    place.parent.mkdir(exist_ok=True)
    write_whole(place, json.dumps(results, indent=1).encode("utf-8"))
    return status


def graded(root: Path) -> dict[str, Any]:
    """Grade the submission in its folder, and return the report for Gradescope.

    Raises NoJail if student code cannot be confined.
    """
    other_user.ensure()
    options = json.loads((root / "source" / OPTIONS).read_text("utf-8"))
    assignment = (root / "source" / ASSIGNMENT).read_bytes()
    plans = messages.unwrap(assignment)[0]["notebooks"]
    notebooks, refused, notes = handed_in(root / "submission", list(plans))
    submission = messages.pack_submission(
        options["assignment"], student(root / "submission_metadata.json"), notes, refused, notebooks
    )
    entries, files = messages.unwrap(
        grade_submission.grade(assignment, submission, many=False, confine=other_user.OtherUser)
    )
    record = json.loads(files[RESULTS])["notebooks"]
    tests, words = [], []
    for name, plan in plans.items():
        flags = (": ".join(filter(None, (flag["exercise"], flag["text"]))) for flag in record[name]["flags"])
        for line in (*record[name]["notes"], *flags):
            print(f"{name}: {line}")  # for the instructor
        if record[name]["missing"]:
            words.append(f"{name}.ipynb was not handed in.")
        if record[name]["refused"]:
            words.append(f"{name}.ipynb could not be read: {record[name]['refused']}.")
        shown = said(files.get(f"{name}.ipynb"))
        tests += [
            {**test, "output_format": "text", "visibility": options["visibility"]}
            for test in notebook_tests(plan, entries["notebooks"][name]["grades"], shown)
        ]
    words += notes
    if any(cell["task"] or cell["grade"] and cell["solution"] for plan in plans.values() for cell in plan):
        words.append("Written answers are graded by a human, and are not included in these points.")
    return {"tests": tests, "output": "\n".join(words)}


def notebook_tests(
    released: list[dict[str, Any]], grades: dict[str, Any], shown: dict[str, str]
) -> list[dict[str, Any]]:
    """The tests of one notebook, one for each automatically graded cell.

    released: its cells, as `pack_assignment` has them; grades: entries for the gradebook, by cell
    shown: what is shown below a check, by cell
    """
    tests = []
    for cell in released:
        if not cell["grade"] or cell["solution"]:
            continue
        name, (score, extra, doubtful, *_) = cell["name"], grades[cell["name"]]
        # A bonus has a maximum of 0, so its points are added on top.
        points, most = (score or 0.0) + (extra or 0.0), float(cell["points"] or 0)
        points = 0.0 if doubtful else points
        output = shown.get(name, "")
        tests.append(
            {
                "name": (exercise_of(name) or name) + ("" if most else " (bonus)"),
                "score": points,
                "max_score": most,
                "status": "passed" if points >= most and (most or points) else "failed",
                "output": f"{DOUBTFUL}\n{output}" if doubtful else output,
            }
        )
    return tests


def said(notebook: bytes | None) -> dict[str, str]:
    """Read the texts below each check of a graded notebook, as plain text, by cell."""
    found = {}
    for cell in json.loads(notebook)["cells"] if notebook else []:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if exercise_of(name) and cell.get("outputs"):
            found[name] = "".join(cell["outputs"][0].get("data", {}).get("text/plain", ""))
    return found


def handed_in(folder: Path, names: list[str]) -> tuple[dict[str, bytes], dict[str, str], list[str]]:
    """The notebooks of a submission by name, why others could not be read, and what a student should know.

    Any name and folder will do: a notebook under another name is recognized by its cells later. If one is expected and
    one is there, it is taken for that even if no cell can be recognized.
    """
    there = _notebooks(folder)
    notebooks, refused, notes = {}, {}, []
    for path in there:
        name = path.name[: path.name.lower().index(".ipynb")]
        if len(names) == len(there) == 1 and name != names[0]:
            notes.append(f"{path.name[:100]} was used as {names[0]}.ipynb.")
            name = names[0]
        if name in names and name in {**notebooks, **refused}:
            first = next(other for other in there if other.name == f"{name}.ipynb").relative_to(folder)
            notes.append(f"{name}.ipynb was handed in more than once; {first} was used.")
            continue
        while name in {**notebooks, **refused}:
            name += " (copy)"
        try:
            notebooks[name] = read_bytes(path)
        except Refused as error:
            refused[name] = str(error)
    return notebooks, refused, notes


def _notebooks(folder: Path) -> list[Path]:
    """The files with a notebook's name, those near the top first, without what file managers leave behind."""
    there: list[Path] = []
    for place, folders, files in os.walk(folder):  # which follows no link
        folders[:] = [name for name in folders if not is_junk(name)]
        there += [Path(place, name) for name in files if suffix(name) == ".ipynb" and not is_junk(name)]
        if len(there) > MAX_LISTED:
            break
    return sorted(there, key=lambda path: (len(path.parts), path))[:MAX_NOTEBOOKS]


def student(metadata: Path) -> str:
    """Read from Gradescope's metadata who submitted: addresses, or numbers where addresses are missing."""
    try:
        users = json.loads(read_bytes(metadata, MAX_METADATA))["users"]
        return ", ".join(str(user.get("email") or user["id"]) for user in users)
    except (Refused, ValueError, LookupError, TypeError, AttributeError):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
