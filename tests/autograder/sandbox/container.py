"""A container like those of Docker, as far as a program in it can tell.

It has root with Docker's rights and no more, its own /tmp, /root, processes and network, and cannot make control
groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap, other_user
from course.folder import ROOT

# Docker's own list, from its documentation: "Runtime privilege and Linux capabilities".
RIGHTS = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT
KILL AUDIT_WRITE""".split()


def needed() -> None:
    """Skip where no such container can be had."""
    if os.geteuid() or bubblewrap.problem():
        pytest.skip("a container for the weaker sandbox takes root and bubblewrap")
    if any(Path(folder).is_relative_to(shared) for folder in (ROOT, sys.prefix) for shared in other_user.SHARED):
        pytest.skip("the weaker sandbox closes /tmp and the like, where this checkout or its environment is")


SYSTEM = {"bin", "etc", "lib", "lib32", "lib64", "opt", "sbin", "sys", "usr"}


def command(binds: dict[str, Path], shows: Iterable[Path] = ()) -> list[str]:
    """Return the words to put before a command.

    binds: place in the container -> folder that is there to be written; shows: folders that are there to be read
    """
    made = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent"]
    made += ["--perms", "0755", "--tmpfs", "/"]
    for entry in sorted(SYSTEM & set(os.listdir("/"))):
        path = f"/{entry}"
        made += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    made += ["--proc", "/proc", "--dev", "/dev", "--dir", "/var"]
    modes = {"/root": "0700", "/run": "0755", **dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm"), "1777")}
    for folder, mode in modes.items():
        made += ["--perms", mode, "--size", str(512 << 20), "--tmpfs", folder]
    if Path(sys.base_prefix).is_relative_to("/root"):  # as other users must be able to read Python
        made += ["--perms", "0755", "--tmpfs", "/root"]
    read_only = {str(folder): Path(folder) for folder in (sys.base_prefix, sys.prefix, *shows)}
    for place, folder in {**read_only, **binds}.items():
        if Path(place).parts[1] in SYSTEM:
            continue
        for above in reversed(Path(place).parents):  # bubblewrap would make them for root alone
            made += ["--perms", "0755", "--dir", str(above)] if above != Path("/") else []
        made += ["--bind" if place in binds else "--ro-bind", str(folder), place]
    made += ["--cap-drop", "ALL"]
    for right in RIGHTS:
        made += ["--cap-add", f"CAP_{right}"]
    return [*made, "--"]


def run(
    *words: str | Path, cwd: str | Path, binds: dict[str, Path] | None = None, shows: Iterable[Path] = ()
) -> subprocess.CompletedProcess:
    """Run a command in such a container."""
    return subprocess.run(
        [*command(binds or {}, shows), "env", "-C", str(cwd), *map(str, words)],
        env={"PATH": os.environ["PATH"], "HOME": "/root", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
