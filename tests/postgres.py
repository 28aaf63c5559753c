"""A PostgreSQL server of the tests' own, on a socket in a folder, where PostgreSQL is installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


def programs() -> Path | None:
    """The folder of initdb and postgres; Debian has only programs of its own on the PATH."""
    debian = Path("/usr/lib/postgresql") if shutil.which("pg_lsclusters") else Path("/nowhere")
    found = shutil.which("initdb")
    places = [*sorted(debian.glob("*/bin"), reverse=True), *([Path(found).parent] if found else [])]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def required() -> None:
    """Fails where there must be one: REQUIRE_POSTGRES=1."""
    if os.environ.get("REQUIRE_POSTGRES") == "1":
        pytest.fail("REQUIRE_POSTGRES=1, but PostgreSQL is not installed")


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str | None]:
    """The address of an empty database on a server that ends with this, or None where there is no PostgreSQL.

    PostgreSQL refuses to run as root: root starts it as the user that its package made, or as nobody.
    """
    place = programs()
    if place is None:
        yield None
        return
    folder.mkdir(parents=True)
    sockets = Path(tempfile.mkdtemp(prefix="pg-"))  # the path of a socket must be short
    start: dict = {"cwd": "/"}
    if os.geteuid() == 0:
        user = _user()
        start |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
        os.chown(sockets, user.pw_uid, user.pw_gid)
        for parent in folder.parents:  # temporary folders are the owner's alone
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001 and str(parent).startswith("/tmp"):
                parent.chmod(parent.stat().st_mode | 0o011)
    run = {"check": True, "capture_output": True, "timeout": 120, **start}
    data = folder / "data"
    subprocess.run([place / "initdb", "-D", data, "-U", "grader", "--auth=trust", "--no-sync", "-E", "UTF8"], **run)
    settings = {"listen_addresses": "", "unix_socket_directories": sockets, "fsync": "off"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [place / "postgres", "-D", data, *options],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            **start,
        )
    try:
        _wait_until_ready(place, sockets, process, log)
        yield f"postgresql+psycopg://grader@/postgres?host={sockets}"
        if process.poll() is not None:  # no fault of who has had all answers from it, but worth a word
            warnings.warn(f"PostgreSQL had ended before it was asked to:\n{log.read_text()[-2000:]}", stacklevel=2)
    finally:
        process.send_signal(signal.SIGQUIT)  # at once, without a last checkpoint
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(sockets, ignore_errors=True)


def _wait_until_ready(place: Path, sockets: Path, process: subprocess.Popen, log: Path) -> None:
    patience = time.monotonic() + 120
    while subprocess.run([place / "pg_isready", "-q", "-h", sockets], check=False).returncode:
        if process.poll() is not None or time.monotonic() > patience:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
        time.sleep(0.1)


def _user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("no user to run PostgreSQL as")
