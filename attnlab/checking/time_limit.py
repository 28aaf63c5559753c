"""A limit on the time of a student's call: an endless loop is ended, a slow answer is not.

Processor time decides, so that no call ends because the machine is busy. A far longer limit on the wall clock ends
code that waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
import time

# Seconds of processor time that `check` allows: one case, and all cases of an exercise together.
CASE_SECONDS, CHECK_SECONDS = 10.0, 60.0
PATIENCE = 4  # seconds on the wall for each second of processor time
TICK = 0.1
IN_A_PAGE = sys.platform == "emscripten"  # Python in a browser: there are neither signals nor threads
processor_time = time.monotonic if IN_A_PAGE else time.process_time  # which stands still there


class StillRunning(BaseException):
    """Raised in a call whose time is up; not an Exception, so that `except Exception` in a loop does not catch it."""


class TimeLimit:
    """Ends calls whose time is up.

        with TimeLimit() as limit:
            with limit.of(5.0):
                call()          # StillRunning is raised in it after five seconds of processor time

    used: seconds of processor time of the last call; told: the seconds after which it was ended, or None if it was not
    """

    def __init__(self):
        self.used, self.told, self._began = 0.0, None, None

    def __enter__(self) -> TimeLimit:
        if IN_A_PAGE:
            self._ticks = monitored(self._tick)
        else:
            self._ticks = _signals(self._tick) if _signals_work() else _watched(self._is_up)
        self._ticks.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._ticks.__exit__(None, None, None)

    @contextlib.contextmanager
    def of(self, seconds: float):
        """Calls within have that many seconds of processor time. They end with StillRunning, which stops here."""
        processor = processor_time()
        self.told, self._limits, self._next = None, (seconds, PATIENCE * seconds), 0.0
        self._began = (processor, time.monotonic())
        try:
            yield
        except StillRunning:
            pass
        finally:
            self._began = None
            self.used = processor_time() - processor

    def _is_up(self) -> bool:
        if self._began is None:
            return False
        clocks = processor_time(), time.monotonic()
        up = [limit for begin, now, limit in zip(self._began, clocks, self._limits) if now - begin > limit]
        if not up or clocks[1] < self._next:
            return False
        # The first time, there is time to find out where the call was. After that, a call that catches everything,
        # as a bare `except` does, is interrupted again and again until it ends.
        self._next = clocks[1] + (1.0 if self.told is None else 0.0)
        self.told = up[0]
        return True

    def _tick(self, *_) -> None:
        if self._is_up():
            raise StillRunning


def _signals_work() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _signals(tick):
    """A signal at every tick, which also ends a `time.sleep`. An existing handler and timer are restored."""
    former = signal.signal(signal.SIGALRM, tick)
    began, (left, interval) = time.monotonic(), signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if former is None else former)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(TICK / 100, left - (time.monotonic() - began)), interval)


@contextlib.contextmanager
def _watched(is_up):
    """Tick in another thread, which ends Python code but not a call that waits."""
    caller, ended, lock = ctypes.c_ulong(threading.get_ident()), threading.Event(), threading.Lock()

    def watch():
        while not ended.wait(TICK):
            with lock:
                if not ended.is_set() and is_up():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(caller, ctypes.py_object(StillRunning))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        with lock:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(caller, None)


EVENTS = 64  # calls and jumps between two ticks: reading a clock in a browser takes longer than a jump


@contextlib.contextmanager
def monitored(tick):
    """Tick as Python code calls functions and jumps, from Python 3.12 on. It does not end a call of C code."""
    monitoring = sys.monitoring  # pyright: ignore[reportAttributeAccessIssue]  (from Python 3.12 on)
    tool = next(free for free in range(6) if monitoring.get_tool(free) is None)  # one limit may be inside another
    passed = 0

    def count(*_):
        nonlocal passed
        passed += 1
        if passed % EVENTS == 0:
            tick()

    monitoring.use_tool_id(tool, "time limit")
    events = (monitoring.events.JUMP, monitoring.events.PY_START)
    for event in events:
        monitoring.register_callback(tool, event, count)
    monitoring.set_events(tool, sum(events))
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
