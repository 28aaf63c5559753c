"""Probes: each calls the student's object on given inputs, and concludes from what can be seen whether it is right.

A probe contains no answer. The same probe runs on the student's object and on the reference, and the two outcomes
are compared leaf by leaf. So a property such as "leaves its input as it was" needs no test code.

Each class of this folder that extends `attnlab.checking.probes.base.Probe` and has a name is a probe, and is found
here under its name: `probes.unchanged`. Where a case has an input `init`, the answer is a class, and a probe gets it
as a function (see `attnlab.checking.probes.class_as_function`).
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from attnlab.checking.probes.base import PROBES, Part, Probe

__all__ = ["PROBES", "Part", "Probe"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
if TYPE_CHECKING:

    def __getattr__(name: str) -> Probe: ...


globals().update(PROBES)  # after all modules, so that a file may have the name of its probe
