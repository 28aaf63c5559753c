"""Mishaps of the grader's own process, caused by a preprocessor, which runs there, to see how they are contained."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import List, Unicode


class Mishap(NbGraderPreprocessor):
    """Each trait names the students to whose notebook called `own`, or only notebook, it happens."""

    raises = List(Unicode()).tag(config=True)
    spins = List(Unicode()).tag(config=True)
    hoards = List(Unicode()).tag(config=True)
    killed = List(Unicode()).tag(config=True)
    killed_once = List(Unicode()).tag(config=True)
    mark = Unicode(help="A file that says that it has happened.").tag(config=True)

    def preprocess(self, nb, resources):
        names = resources["nbgrader"]
        student = names["student"] if names["notebook"] != "second" else None
        if student in self.raises:
            raise ValueError(f"no place for {student}")
        if student in self.hoards:
            bytearray(2 << 30)
        while student in self.spins:
            pass
        if student in self.killed or student in self.killed_once and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return nb, resources
