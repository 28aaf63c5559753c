"""Pools of grading processes: one other process, or several with Dask, here or on other machines.

A pool takes jobs and gives results as they finish: bytes, or the exception that prevented them. Jobs are taken one by
one as there is room, so a class of any size fits into memory.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder.grading.worker import Grader, Job
from autograder.sandbox import bubblewrap
from course.errors import CourseError

JOBS_PER_WORKER = 2  # jobs a worker has waiting
RETRIES = 3  # of a job whose worker was lost
SUBMISSIONS_PER_WORKER = 40  # submissions that justify starting one more worker
PATIENCE = 20  # seconds to wait for a scheduler's first worker
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
QUIET = {
    **{f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")},
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.large-graph-warning-threshold": "1GiB",  # a submission may be of many megabytes
    # These are not used, so they need not be measured fifty times per second.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def worker_count(submissions: int) -> int:
    """How many workers of this machine to use for that many submissions: no more than there are cores."""
    return min(len(os.sched_getaffinity(0)), 1 + submissions // SUBMISSIONS_PER_WORKER)


class OnDask:
    """Several at a time, by the workers of a Dask client. They receive bytes, and return bytes or an error."""

    def __init__(self, client, workers: int):
        self._client, self.workers = client, workers

    def graded(self, jobs: Iterable[Job], count: int) -> Iterator[tuple[tuple[str, str], bytes | Exception]]:
        """Names and results of jobs, as they are done. Raises CourseError if the scheduler is lost."""
        from distributed import CancelledError, as_completed

        waiting = as_completed(loop=self._client.loop)
        names_of, common_of, jobs = {}, {}, iter(jobs)

        def fill() -> None:
            while len(names_of) < JOBS_PER_WORKER * self.workers and (job := next(jobs, None)):
                name = job.names[0]
                if name not in common_of:  # sent once to each worker, and again if a worker is lost
                    common_of[name] = self._client.submit(bytes, job.common, pure=False)
                future = self._client.submit(grade_there, common_of[name], job.submission, pure=False, retries=RETRIES)
                names_of[future.key] = job.names
                waiting.add(future)

        fill()
        try:
            while names_of:
                future = next(waiting)
                names = names_of.pop(future.key)
                yield names, _result(future)
                future.release()
                fill()
        except (CancelledError, StopIteration, OSError) as error:
            raise CourseError(
                "the scheduler is gone; finished grades are entered, and a second run does the rest "
                f"({type(error).__name__})"
            ) from None


def _result(future) -> bytes | Exception:
    result = future.exception() or future.result()
    if isinstance(result, bubblewrap.NoJail):
        raise result
    return result


_own = threading.local()  # a worker may have several threads


def grade_there(common: bytes, submission: bytes) -> bytes | CourseError:
    """Grade one job in a worker. An error is returned too, and contains nothing from a submission."""
    if not hasattr(_own, "grader"):
        _own.grader = Grader()
    try:
        return _own.grader.grade(common, submission)
    except bubblewrap.NoJail as error:
        return error
    except Exception as error:
        return CourseError(f"{type(error).__name__}: {error}"[:2000])


@contextlib.contextmanager
def pool(workers: int = 1, scheduler: str | None = None, tls: dict[str, Path] | None = None):
    """A pool of that many workers of this machine, or of those that a scheduler has.

    scheduler: the address of a running one, such as tls://grader.example.org:8786; with `tls` ("ca", "cert", "key")
    """
    if workers == 1 and not scheduler:  # without Dask, whose import takes most of a second
        with contextlib.closing(Grader()) as one:
            yield one
    elif scheduler:
        with _client(scheduler, tls or {}) as client:
            yield OnDask(client, _workers_of(client, scheduler))
    else:
        with _cluster(workers) as client:
            yield OnDask(client, workers)


def _workers_of(client, address: str) -> int:
    """How many workers a scheduler has. Raises CourseError if there are none."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise CourseError(
            f"the scheduler at {address} has no workers. Start some with `dask worker {address}`, and grade again"
        ) from None
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _client(address: str, tls: dict[str, Path]):
    from distributed import Client
    from distributed.security import Security

    protocol, _, host = address.rpartition("://")
    if protocol == "tls" and set(tls) != {"ca", "cert", "key"}:
        raise CourseError("a scheduler with TLS needs --tls-ca, --tls-cert and --tls-key, each the name of a file")
    if protocol != "tls" and host.rpartition(":")[0] not in LOOPBACK:
        raise CourseError(f"{address} is not tls://..., and submissions must not leave this machine unencrypted")
    files = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
    security = (
        Security(require_encryption=True, **{files[name]: str(path) for name, path in tls.items()}) if tls else None
    )
    for name in ("distributed", "distributed.client"):  # a lost connection is reported once, in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, security=security, timeout="30s", set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise CourseError(f"no scheduler answers at {address}: {str(error).splitlines()[0]}") from None


@contextlib.contextmanager
def _cluster(workers: int):
    """A client of workers of this machine, on loopback, with keys that live as long as they do, for no other user."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    with (
        dask.config.set(QUIET),  # pyright: ignore[reportPrivateImportUsage]  # dask documents it
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            protocol="tls://",
            dashboard_address="127.0.0.1:0",
            security=Security.temporary(),
            silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
