"""Start a PostgreSQL server for tests, on a socket in a folder of its own, where PostgreSQL is installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

STARTS = 5


def programs() -> Path | None:
    """Return the folder of initdb and postgres, which Debian does not have on the PATH."""
    debian = Path("/usr/lib/postgresql") if shutil.which("pg_lsclusters") else Path("/nowhere")
    found = shutil.which("initdb")
    places = [*sorted(debian.glob("*/bin"), reverse=True), *([Path(found).parent] if found else [])]
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@contextlib.contextmanager
def server() -> Iterator[str | None]:
    """The address of an empty database on a server that ends with this, or None where there is no PostgreSQL.

    As a service would be, the server is started again if it ends before it is asked to, and its log is shown then.
    PostgreSQL refuses to run as root: root starts it as the user that its package made, or as one without rights.
    """
    place = programs()
    if place is None:
        if os.environ.get("REQUIRE_POSTGRES") == "1":
            raise RuntimeError("REQUIRE_POSTGRES=1, but PostgreSQL is not installed")
        yield None
        return
    # Not among pytest's own folders, which each new session closes to other users. The path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    start: dict = {"cwd": "/"}
    if os.geteuid() == 0:
        user = _user()
        start |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
    run = {"check": True, "capture_output": True, "timeout": 120, **start}
    data, log = folder / "data", folder / "log"
    subprocess.run([place / "initdb", "-D", data, "-U", "grader", "--auth=trust", "--no-sync", "-E", "UTF8"], **run)
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off"}
    command = [place / "postgres", "-D", data]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    started: list[subprocess.Popen] = []
    ended = threading.Event()

    def serve() -> None:
        with log.open("wb") as file:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            while not ended.is_set() and len(started) < STARTS:
                started.append(subprocess.Popen(command, **streams, start_new_session=True, **start))
                started[-1].wait()

    service = threading.Thread(target=serve)
    service.start()
    try:
        _wait_until_ready(place, folder, service, log)
        yield f"postgresql+psycopg://grader@/postgres?host={folder}"
    finally:
        if len(started) > 1 or not service.is_alive():  # perhaps no fault of its user, but worth a word
            warnings.warn(f"PostgreSQL has ended before it was asked to:\n{log.read_text()[-4000:]}", stacklevel=2)
        ended.set()
        while service.is_alive():
            started[-1].send_signal(signal.SIGQUIT)  # at once, without a last checkpoint
            service.join(10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(place: Path, folder: Path, service: threading.Thread, log: Path) -> None:
    patience = time.monotonic() + 120
    while subprocess.run([place / "pg_isready", "-q", "-h", folder], check=False).returncode:
        if not service.is_alive() or time.monotonic() > patience:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
        time.sleep(0.1)


def _user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("no user to run PostgreSQL as")
