"""A new probe is one file. It is also found in a package that is imported from a zip file."""

from __future__ import annotations

import subprocess
import sys
import zipfile

from course.folder import ROOT

PROBE = """
from attnlab.checking.probes import Part, Probe


class EvenSum(Probe):
    name = "even_sum"
    parts = {"parity": Part("The sum is {got} where {expected} was asked for", "The sum has the wrong parity")}
    tolerates = frozenset({"value"})
    without_merit = "An even sum counts only where numbers are computed."
    not_shown = frozenset({"times"})

    def call(self, f, *, times, **inputs):
        return {"results": [f(**inputs) for _ in range(times)]}

    def conclude(self, raw, used, *, divisor, **case):
        result = raw[0]["results"][0]
        return {"parity": "even" if sum(result) % divisor == 0 else "odd", "result": result}
"""
PROGRAM = """
import attnlab
from attnlab.check import examine
from attnlab.checking import probes
from course.kit.exercise import Exercise

assert "zip" in attnlab.__file__


def doubled(x):
    return [2 * entry for entry in x]


exercise = Exercise(doubled, section="Doubling")
exercise.property("doubles", points=1)(lambda rng: [dict(x=[1, 2])])


@exercise.property("has an even sum", points=1, probe=probes.even_sum, hint="Double.")
def even(rng):
    for _ in range(2):
        yield dict(x=[int(n) for n in rng.integers(1, 9, size=3)] + [1], times=2, divisor=2)


material = exercise.material()
assert examine(doubled, material).passed


def report(answer, **options):
    finding = examine(answer, material, **options).findings[1]
    print(finding.passed, *finding.detail.splitlines()[:1], sep=" | ")


def odd(x):
    return [*doubled(x)[:-1], 1]


report(odd)
report(odd, show_cases=False)
report(lambda x: [0] * len(x))
report(lambda x: [4 * entry for entry in x])
"""
PRINTED = """
False | The sum is odd where even was asked for.
False | The sum has the wrong parity.
False | An even sum counts only where numbers are computed.
True
"""


def test_one_file_declares_a_probe_with_its_words_and_its_verdict(tmp_path):
    archive = tmp_path / "attnlab.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted((ROOT / "attnlab").rglob("*.py")):
            packed.write(path, path.relative_to(ROOT))
        packed.writestr("attnlab/checking/probes/even_sum.py", PROBE)  # a file may have the name of its probe
    code = f"import sys; sys.path[:0] = [{str(archive)!r}, {str(ROOT)!r}]\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.strip() == PRINTED.strip()
