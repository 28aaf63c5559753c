"""Time and memory of processes, measured from outside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autograder.sandbox import usage
from tests.autograder import processes

MB = 1 << 20
WORKS = """
import os, sys, time
print(".", flush=True)
for line in sys.stdin:
    exec(line)
    print(".", flush=True)
"""
SPIN = "begin = time.process_time()\\nwhile time.process_time() - begin < 0.5: pass"


@pytest.fixture(params=["itself", "below"])
def process(request):
    """A process that does what it is told, and the one by which it is known: itself, or one above it."""
    command = [sys.executable, "-c", WORKS]
    if request.param == "below":
        command = ["/bin/sh", "-c", '"$@"; true', "sh", *command]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        started.stdout.readline()
        yield started
        started.stdin.close()


def tell(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    process.stdout.readline()


def test_memory_is_the_most_that_was_held_and_not_what_is_held_after(process):
    tell(process, f"x = bytearray(b'x') * {60 * MB}; del x")
    use = usage.Use(process.pid)
    tell(process, f"x = bytearray(b'x') * {20 * MB}; del x")
    assert 19 * MB < use.until_now()["bytes"] < 30 * MB
    assert usage.Use(process.pid).until_now()["bytes"] < 5 * MB


def test_processor_time_counts_and_sleep_does_not(process):
    use = usage.Use(process.pid)
    tell(process, "time.sleep(0.5)")
    assert use.until_now()["seconds"] < 0.3
    tell(process, f'exec("{SPIN}")')
    assert use.until_now()["seconds"] >= 0.4


def test_the_processes_below_are_found(process):
    alone = usage._tree(process.pid).keys()
    tell(process, "child = os.fork() or time.sleep(60)")
    assert usage._tree(process.pid).keys() > alone >= {process.pid}
    assert usage._tree(2**30) == {}
    tell(process, "os.kill(child, 9)")


def test_children_count_while_they_run_and_when_they_have_ended(process):
    use = usage.Use(process.pid)
    tell(process, f"""exec("if os.fork() == 0:\\n    exec({SPIN!r})\\n    os._exit(0)\\nos.wait()")""")
    assert use.until_now()["seconds"] >= 0.4


def test_a_busy_machine_lets_processes_wait_and_sleep_does_not(process):
    def waited(what):
        before = usage.spent_and_waited(process.pid)[1]
        tell(process, what)
        return usage.spent_and_waited(process.pid)[1] - before

    processes.wait_until(lambda: waited("time.sleep(0.5)") < 0.2)  # on a busy machine it may wait to begin and to end
    one = f"os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    both = f"""exec("{one}\\nchild = os.fork()\\nexec({SPIN!r})\\nif not child: os._exit(0)\\nos.wait()")"""
    assert waited(both) > 0.3


def test_a_process_that_is_gone_has_used_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert usage.spent_and_waited(ended.pid) == (0, 0) and usage.Use(ended.pid).until_now()["bytes"] == 0
