"""The weaker sandbox for containers: what it holds there, what is left of it, and that a hole in it is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from autograder.sandbox import bubblewrap, other_user
from autograder.sandbox.bubblewrap import NoJail
from autograder.sandbox.limits import Limits
from course.folder import ROOT
from tests.autograder.sandbox import container

INSIDE = """
import contextlib, dataclasses, json, os, subprocess, sys, time
from pathlib import Path
from autograder.sandbox import bubblewrap, doctor, other_user
from autograder.sandbox.limits import Limits
from autograder.sandbox.other_user import OtherUser

def said(code, **options):
    with OtherUser([sys.executable, "-I", "-S", "-c", code], **options) as held:
        return held.process.communicate(timeout=60)[0].decode()

def missing(*keys):
    rounds = [[probe for probe in probes if probe.key in keys] for probes in doctor.ROUNDS]
    doctor.ROUNDS = list(filter(None, rounds))
    return sorted(probe.key for probe, came in doctor.examine(OtherUser) if came)
"""
# The program keeps the rights of root. What ends it is still its user, of which nothing runs.
AS_ROOT = """
start = bubblewrap.start
bubblewrap.start = lambda command, *more, **named: start(command[command.index('--') + 1 :], *more, **named)
"""
WITH_SOCKETS = """
made = bubblewrap.set_limits
bubblewrap.set_limits = lambda limits, sockets: made(limits)
"""


def inside(code: str):
    """Run a program as root in a container, and return what it prints as JSON."""
    container.needed()
    done = container.run(sys.executable, "-c", INSIDE + code, shows=[ROOT], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_is_confined_and_alone_in_its_folder():
    assert inside("""
given = Path('/tmp/words'); given.write_text('the cat sat')
code = 'import os; print(os.getcwd() == os.environ["HOME"], open("words").read(), sorted(os.listdir()))'
print(json.dumps([other_user.problem(), said(code, files={'words': given})]))
""") == [None, "True the cat sat ['.cache', 'words']\n"]


def test_two_programs_are_two_users_and_nothing_of_them_is_left():
    users, files, processes = inside("""
users, code = [], '''import os, time
os.fork() and time.sleep(600); os.setsid()
open("/tmp/mine", "w"); os.mkdir("/dev/shm/mine"); open("/dev/shm/mine/too", "w")
print(os.getuid(), flush=True); time.sleep(600)'''
for _ in range(2):
    with OtherUser([sys.executable, '-I', '-S', '-c', code]) as held:
        users.append(int(held.process.stdout.readline()))
found = [str(p) for d in ('/tmp', '/dev/shm') for p in Path(d).iterdir() if p.lstat().st_uid]
print(json.dumps([users, found, [list(other_user._processes_of(user)) for user in users]]))
""")
    assert len(set(users)) == 2 and set(users) <= set(other_user.USERS)
    assert files == [] and processes == [[], []]


def test_a_program_that_never_stops_forking_is_ended():
    left = inside(r"""
code = 'import os\nprint(0, flush=True)\nwhile True:\n  try: os.fork()\n  except OSError: pass'
with OtherUser([sys.executable, '-I', '-S', '-c', code], limits=Limits(processes=40)) as held:
    held.process.stdout.readline(); time.sleep(0.5)
print(json.dumps(list(other_user._processes_of(held.user))))
""")
    assert left == []


@pytest.mark.parametrize(
    "hole, keys",
    [
        ("", []),
        (AS_ROOT, ["home", "privileges", "signals"]),
        (WITH_SOCKETS, ["loopback"]),
    ],
    ids=["none", "root", "sockets"],
)
def test_a_hole_is_found_and_named(hole, keys):
    tried = "'home', 'privileges', 'signals', 'limits', 'loopback', 'trace', 'environment'"
    assert inside(f"os.umask(0o077)\n{hole}\nprint(json.dumps(missing({tried})))") == keys


def test_a_program_that_keeps_rights_is_refused_in_words():
    problem = inside(f"{AS_ROOT}\nprint(json.dumps(other_user.problem()))")
    assert "is not confined here: AssertionError: rights are left" in problem


def test_a_program_does_not_run_without_a_filter_of_system_calls():
    code = "import sys; import set_limits; set_limits.refuse_calls = lambda families: False\n"
    code += "set_limits.main(sys.argv[1:])"
    for sockets, printed in ((True, b"ran\n"), (False, b"")):
        arguments = bubblewrap.set_limits(Limits(), sockets)[4:]
        program = [sys.executable, "-c", code, *arguments, "/bin/echo", "ran"]
        environment = {**os.environ, "PYTHONPATH": str(bubblewrap.INSIDE)}
        done = subprocess.run(program, capture_output=True, env=environment)
        assert done.stdout == printed and (done.returncode == 0) == sockets


def test_the_weaker_sandbox_needs_root(not_root):
    with pytest.raises(NoJail, match="only root can run a program as another user"):
        other_user.ensure()
