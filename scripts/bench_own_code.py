"""CPU seconds of students' own code: `python scripts/bench_own_code.py NOTEBOOK...`, for `bench_grading.py`.

Each notebook runs in a fork of this process, which has loaded everything: the cells that a student wrote, then each
answer with every hidden input. The cells of the handout that they need run too, but their time is not counted. Nothing
is judged and nothing is confined, so run it on submissions that you trust.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.update(
    MPLBACKEND="module://matplotlib_inline.backend_inline",
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
)

from attnlab.checking.observe import outcome_of
from autograder.grading import dependencies
from autograder.grading.questions import material_of
from autograder.sandbox import fork_client
from autograder.sandbox.inside import fork_server, notebook_session
from autograder.sandbox.limits import MAX_DATA, MAX_OUTPUTS, MAX_TEXT, WALL, Times
from course import assemble, catalog, prerequisites


def run(path: Path, shell) -> float:
    """Seconds of one submission's own cells and calls, in this process."""
    stem, used = path.stem, 0.0
    if references := prerequisites.references(stem):
        notebook_session.provide_references(**prerequisites.with_bytecode(references))
    plain = {cell.source.strip() for cell in assemble.source_notebook(stem).cells if "nbgrader" not in cell.metadata}
    cells = [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade_id", "").startswith("check-")
    ]
    given = {place: cell.source for place, cell in enumerate(cells) if cell.source.strip() in plain}
    exercises = catalog.exercises_of(stem)
    wanted = dependencies.needed(
        given, [cell.source for place, cell in enumerate(cells) if place not in given], set(exercises)
    )
    for place, cell in enumerate(cells):
        if place in given.keys() - wanted:
            continue
        begin = time.process_time()
        limits = {"seconds": Times.cell, "wall": WALL, "text": MAX_TEXT, "data": MAX_DATA, "outputs": MAX_OUTPUTS}
        notebook_session.run_cell(shell, {"cell": cell.source, **limits})
        used += 0 if place in given else time.process_time() - begin
    begin = time.process_time()
    for name, exercise in exercises.items():
        answer = shell.user_ns.get(name)
        if callable(answer):
            for prop in material_of(exercise)["properties"]:
                for case in prop["cases"]:
                    outcome_of(answer, prop["probe"], case)
    return used + time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="named after its chapter")
    paths = parser.parse_args().notebooks
    shell = fork_server.warm_up(notebook_session, fork_client.TORCH)
    for path in paths:
        for exercise in catalog.exercises_of(path.stem).values():
            material_of(exercise)  # the grader's own work, done before the forks
    total = 0.0
    for path in paths:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.write(writes, json.dumps(run(path, shell)).encode())
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as said:
            total += json.loads(said.read())
        os.waitpid(child, 0)
    print(json.dumps(total))


if __name__ == "__main__":
    main()
