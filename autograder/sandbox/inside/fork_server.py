"""A warm process in its own jail, from which the process of each submission is forked, in fresh namespaces.

Run as `fork_server.py ATTNLAB CONTROL SECONDS LIBRARY...`: the folder of that package, the socket that orders come by,
how long to wait for the next order, and what to load. It never runs a student's code itself. An order is a `ForkOrder`
(see `attnlab.checking.schema`) in JSON, with the descriptors of the new process: announce, standard input and output,
the files, and what is passed on to it. Libraries that are not loaded yet are loaded before the fork, for all that
follow.

A new process has its own namespaces inside those of the server's jail. It says over `announce` that it is there, by
which the grader learns its number; waits until the grader has put it into its control group; drops every capability;
sets the limits; says that all of it was done; and becomes the program, or, where none is named, goes on as
`notebook_session.py` with everything loaded.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import random
import resource
import select
import socket
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnlab.checking.schema import ForkOrder

MAX_ORDER, MAX_DESCRIPTORS = 65536, 253  # Linux sends no more descriptors in one message
HIGH = 256  # descriptors wait here while those below are put in order
# unshare: mounts, control groups, host name, IPC, users, processes, network
NEW = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_PROGRAMS = 1, 2, 4, 8
REMOUNT, BIND, RECURSIVE, PRIVATE = 32, 4096, 16384, 1 << 18
UNPRIVILEGED = 65534
LARGE, COLLAPSE = 2 << 20, 25  # bytes of a large page; MADV_COLLAPSE
LIBC = ctypes.CDLL(None, use_errno=True)


def main(attnlab: str, descriptor: str, seconds: str, *libraries: str) -> None:
    control = socket.socket(fileno=int(descriptor))
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU):  # the grader's; each process gets its own limits
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (hard, hard))
    sys.path.insert(0, os.path.dirname(__file__))  # which an isolated Python leaves out, and so do cells
    limits, session = map(importlib.import_module, ("set_limits", "notebook_session"))
    del sys.path[0]
    shell = warm_up(session, libraries)
    settle()
    for place in reversed(_mounted_below("/proc")):  # where parts of /proc are covered, no other may be mounted
        _call("umount2", place.encode(), 0)
    control.send(b"ready")
    while select.select([control], [], [], float(seconds))[0]:
        text, descriptors, flags, _ = socket.recv_fds(control, MAX_ORDER, MAX_DESCRIPTORS)
        if not text:
            break
        order = None if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) else json.loads(text)
        missing = [library for library in order["libraries"] if library not in sys.modules] if order else []
        if missing:
            for library in missing:
                importlib.import_module(library)
            settle()
        child = os.fork()
        if not child:
            try:
                descriptors = _in_order(descriptors)
                if order is None:
                    raise OSError("the order did not come whole")
                start(order, descriptors, limits)
                session.serve(shell, *session.detach_std_streams())
            except BaseException as error:  # the grader starts another process the slow way
                os.write(descriptors[0], f"!{error}"[:200].encode("utf-8", "replace"))
            finally:
                os._exit(1)
        for number in descriptors:
            os.close(number)
        os.waitpid(child, 0)


def warm_up(session, libraries):
    """Load the libraries, draw a figure, and make the shell that cells will run in. No thread is started."""
    shell = session.make_shell()
    session.reload_check_modules()  # before the libraries, so that all modules of the check are compiled once, here
    for library in libraries:
        importlib.import_module(library)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    pyplot = sys.modules["matplotlib.pyplot"]
    figure, axes = pyplot.subplots()
    axes.imshow([[0.0, 1.0]])
    axes.set_title("$x^2$")
    figure.savefig(io.BytesIO(), format="png")  # fonts and colors are looked up once
    pyplot.close(figure)
    for late in ("numpy.random", "IPython.core.logger"):  # what would be loaded in every fork
        importlib.import_module(late)
    shell.run_cell("1 / 0", store_history=False, silent=True)  # and for the first exception
    return shell


def settle() -> None:
    """Make forks cheap: objects that are loaded now are never garbage, so no fork looks at them or copies them.

    It is gathered into pages of 2 MB where the kernel can (Linux 6.1): a fork copies the table of pages, and a
    submission takes a dozen forks.
    """
    gc.collect()
    gc.freeze()
    with open("/proc/self/maps") as file:
        maps = [line.split() for line in file]
    for place, rights, _, _, inode, *_ in maps:
        begin, end = (int(number, 16) for number in place.split("-"))
        if rights == "rw-p" and inode == "0" and end - begin >= LARGE:
            LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), COLLAPSE)


def _mounted_below(folder: str) -> list[str]:
    with open("/proc/self/mountinfo") as file:  # it writes a space as \040
        places = [line.split()[4].encode().decode("unicode_escape").encode("latin1").decode() for line in file]
    return [place for place in places if place.startswith(folder + "/")]


def start(order: ForkOrder, descriptors: list[int], limits) -> None:
    """In a fork of the server: make the namespaces, and in them the first process, which makes the program's.

    Returns in the process that is to run a notebook, where no program is named.
    """
    announce = descriptors[0]
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{UNPRIVILEGED} {user} 1"),
        ("gid_map", f"{UNPRIVILEGED} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.write(announce, b".")
    if os.read(announce, 1) != b".":  # the grader has given it up
        os._exit(1)
    files = dict(zip(order["files"], descriptors[3:]))
    home = os.environ["HOME"]
    _mount_own_folders(home, order["scratch"], files)
    with socket.socket() as any_socket:  # in a new network namespace loopback is down
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
    _give_up_rights()
    limits.limit([int(value) for value in order["limits"]])
    if not limits.refuse_calls():
        raise OSError("no filter of system calls")
    os.chdir(home)
    os.write(announce, b".")
    child = os.fork()
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        while os.wait()[0] != child:  # as the first process of the namespace, reap the others
            pass
        os._exit(0)  # and the namespace ends with it
    passed = descriptors[3 + len(files) :]
    for number, descriptor in enumerate([descriptors[1], descriptors[2], os.open(os.devnull, os.O_WRONLY), *passed]):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(3 + len(passed), os.sysconf("SC_OPEN_MAX"))
    if order["program"]:
        os.execv(order["program"][0], order["program"])
    random.seed()  # no two submissions draw the same numbers
    sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def _in_order(descriptors: list[int]) -> list[int]:
    """The descriptors from HIGH on, and no others that could be found."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, HIGH + number, inheritable=True)
    os.closerange(3, HIGH)
    return [HIGH + number for number in range(len(descriptors))]


def _call(name: str, *arguments) -> None:
    """Call the C library. Raises OSError."""
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    names = [text.encode() or None for text in (source, target, kind)]
    _call("mount", *names, ctypes.c_ulong(flags), data.encode() or None)


def _mount_own_folders(home: str, scratch: int, files: dict[str, int]) -> None:
    """Fresh folders in memory in place of the server's, and the given files in the home folder, not to be changed."""
    _mount("none", "/", flags=RECURSIVE | PRIVATE)
    own = ("/tmp", "/dev/shm", home)
    # What the server's jail has mounted there: the list of fonts, and Python and `attnlab` if they are there.
    kept = [(place, os.open(place, os.O_PATH)) for folder in own for place in _mounted_below(folder)]
    for folder in own:
        _mount("tmpfs", folder, "tmpfs", NO_SUID | NO_DEVICES, f"size={scratch},mode=0755")
    for place, held in kept:
        if os.path.isdir(f"/proc/self/fd/{held}"):
            os.makedirs(place, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            open(place, "wb").close()
        _mount(f"/proc/self/fd/{held}", place, flags=BIND)  # read-only, as it was
        os.close(held)
    for name, descriptor in files.items():
        path = f"{home}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(descriptor, "rb", closefd=False) as given, open(path, "wb") as copy:
            while block := os.pread(given.fileno(), 1 << 20, copy.tell()):  # the place in it is shared with others
                copy.write(block)
        _mount(path, path, flags=BIND)
        _mount("", path, flags=REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES)
    # Read-only: a grader that is root owns /proc/sys in any namespace, and /proc/1/mem is writable for its owner.
    _mount("proc", "/proc", "proc", READ_ONLY | NO_SUID | NO_DEVICES | NO_PROGRAMS)


def _give_up_rights() -> None:
    """Drop every capability, for good: no program can get one back."""
    _call("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    _call("prctl", 47, 4, 0, 0, 0)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
    with open("/proc/sys/kernel/cap_last_cap") as file:
        for capability in range(int(file.read()) + 1):
            _call("prctl", 24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    _call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0] * 6))


if __name__ == "__main__":
    main(*sys.argv[1:])
