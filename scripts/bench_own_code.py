"""CPU seconds of students' own code: `python scripts/bench_own_code.py NOTEBOOK...`, for `bench_grading.py`.

Each notebook runs in a fork of this process, which has loaded everything: its cells, as they stand, then each answer
with every hidden input. Nothing is judged, nothing is confined: only for submissions that you trust.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
from attnlab import notebook_worker, worker  # noqa: E402
from attnlab.observe import observe  # noqa: E402
from autograder import fork_server, lent, registry  # noqa: E402
from autograder.grading import material_of  # noqa: E402


def run(path: Path, shell) -> None:
    """One submission's cells and calls, in this process."""
    stem = path.stem
    loans = lent.loans(stem)
    if loans:
        worker.lend(**loans)
    cells = nbformat.read(path, as_version=4).cells
    for cell in cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if cell.cell_type == "code" and not name.startswith("check-"):
            notebook_worker.run_cell(shell, cell.source, 180.0)
    for name, exercise in registry.exercises_of(stem).items():
        answer = shell.user_ns.get(name)
        if callable(answer):
            for prop in material_of(exercise, None)["properties"]:
                for case in prop["cases"]:
                    observe(answer, prop["probe"], case)


def main() -> None:
    shell = fork_server.warm_up(notebook_worker)
    paths = [Path(name) for name in sys.argv[1:]]
    for path in paths:
        for exercise in registry.exercises_of(path.stem).values():
            material_of(exercise, None)  # the grader's own work, done before the forks
    total = 0.0
    for path in paths:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            run(path, shell)
            os._exit(0)
        _, _, used = os.wait4(child, 0)
        total += used.ru_utime + used.ru_stime
    print(json.dumps(total))


if __name__ == "__main__":
    main()
