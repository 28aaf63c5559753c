"""The doctor finds nothing where the jail holds, and every hole that is made on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.sandbox import bubblewrap, doctor
from autograder.sandbox.cgroup import Group
from course.folder import ROOT

KEYS = [probe.key for probes in doctor.ROUNDS for probe in probes]
ROOTS = {"kernel", "mounts", "namespaces", "other_sockets"}  # who is not root may be refused these anywhere


def command(**environment: str) -> subprocess.CompletedProcess:
    doctor = [sys.executable, "-m", "autograder", "doctor"]
    return subprocess.run(doctor, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment})


def can_group() -> bool:
    with bubblewrap.Jail([sys.executable, "--version"]) as held:
        held.process.wait()
        return bool(held.group.folders)


def test_the_doctor_finds_nothing_missing_where_the_jail_holds(needs_jail):
    done = command()
    *lines, last = [line for line in done.stdout.splitlines() if "other users of this machine can enter" not in line]
    assert done.stderr == "" and len(lines) == len(KEYS) + 1
    if can_group():
        assert done.returncode == 0 and all(line.startswith("ok ") for line in lines), done.stdout
        assert last == "Student code is confined here."
    elif os.geteuid():  # nothing else bounds the memory of all processes together
        assert done.returncode == 0 and all(line.startswith(("ok ", "open     memory")) for line in lines)
    else:
        assert done.returncode == 1 and all("control group" in line for line in lines if not line.startswith("ok "))


@pytest.mark.parametrize(
    "line, key",
    [
        ("if not limits.refuse_calls():", "namespaces"),
        ('_mount("proc", "/proc", "proc", READ_ONLY | NO_SUID | NO_DEVICES | NO_PROGRAMS)', "kernel"),
    ],
)
def test_a_hole_in_forked_jails_alone_is_found_and_named(needs_jail, monkeypatch, altered, capsys, line, key):
    if key in ROOTS and os.geteuid():
        pytest.skip("only root can")
    altered(f"    {line}\n", "    if False:\n" if line.endswith(":") else "    pass\n")
    probes = [probe for probe in doctor.ROUNDS[0] if probe.key in (key, "home")]
    monkeypatch.setattr(doctor, "ROUNDS", [probes])
    assert doctor._examine_warm() == 1
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("MISSING ") and next(p.title for p in probes if p.key == key) in said


def test_the_doctor_says_where_no_jail_can_be_forked(needs_jail, altered, capsys):
    altered("import ctypes\n", "raise SystemExit\n")
    assert doctor._examine_warm() == 0
    assert capsys.readouterr().out.startswith("slow ")


def test_the_doctor_says_in_one_line_that_bubblewrap_is_hidden(tmp_path):
    done = command(PATH=str(tmp_path))
    assert done.returncode == 1 and done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("MISSING ") and "bubblewrap is not installed" in line and "apt-get install" in line


def test_the_doctor_counts_a_jail_that_is_switched_off_as_missing(needs_jail, monkeypatch, capsys):
    monkeypatch.setenv(bubblewrap.NO_JAIL, "1")
    monkeypatch.setattr(doctor, "ROUNDS", [])
    assert doctor.run() == 1
    assert "switched off" in capsys.readouterr().out


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return the result of each probe with neither jail nor limits."""
    folder = tmp_path_factory.mktemp("bare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bubblewrap, "set_limits", lambda limits: [])
        patch.setattr(bubblewrap, "inner_environment", lambda: dict(os.environ))
        patch.setattr(doctor, "places", lambda: [folder])
        patch.setenv("HOME", str(folder))
        found = doctor.examine(bubblewrap.Unconfined)
    return {probe.key: came for probe, came in found}


@pytest.mark.parametrize("key", KEYS)
def test_every_probe_gets_through_without_jail_and_limits(bare, key):
    if key in ROOTS and os.geteuid():
        pytest.skip("takes root")
    assert bare[key] and "probe itself" not in bare[key]


def test_the_doctor_leaves_nothing_that_it_made(bare):
    left = [path for folder in (*doctor.places(), Path.home()) for path in folder.glob("*doctor-????????????????*")]
    assert left == []


def without(*words: str):
    """A change of a command line: leaves out each place where these words follow each other."""

    def change(command: list[str]) -> list[str]:
        at = next((i for i in range(len(command)) if command[i : i + len(words)] == list(words)), None)
        return command if at is None else change(command[:at] + command[at + len(words) :])

    return change


def before_the_end(*words: str):
    def change(command: list[str]) -> list[str]:
        end = max(i for i, word in enumerate(command) if word == "--remount-ro")
        return [*command[:end], *words, *command[end:]]

    return change


SIZE = str(doctor.SMALL.scratch)


ATTNLAB = str(ROOT / "attnlab")


@pytest.mark.parametrize(
    "change, keys",
    [
        (before_the_end("--share-net"), {"loopback", "unix_socket"}),
        (before_the_end("--ro-bind", str(ROOT), str(ROOT)), {"solutions"}),
        (before_the_end("--bind", ATTNLAB, ATTNLAB), {"write"}),
        (without("--size", SIZE), {"disk"}),
        (without("--remount-ro", "/proc"), {"kernel"}),
    ],
    ids=["network", "checkout", "writable", "size", "proc"],
)
def test_a_hole_in_the_jail_is_found_and_named(needs_jail, monkeypatch, change, keys):
    if keys & ROOTS and os.geteuid():
        pytest.skip("only root can")
    whole = bubblewrap.command_line
    monkeypatch.setattr(bubblewrap, "command_line", lambda *given: change(whole(*given)))
    assert found(monkeypatch, keys | {"home", "trace"}) == keys


def test_the_doctor_finds_limits_that_are_not_set(needs_jail, monkeypatch):
    monkeypatch.setattr(bubblewrap, "set_limits", lambda limits: [])
    keys = {"limits", "trace", "big_file"}
    assert found(monkeypatch, keys | {"home"}) == keys


def test_the_doctor_finds_groups_that_are_not_made(needs_jail, monkeypatch):
    monkeypatch.setattr(Group, "make", classmethod(lambda group, limits: group()))
    # The kernel holds no limit of processes against root, and holds it against all others.
    assert found(monkeypatch, {"fork", "memory", "home"}) == ({"memory"} if os.geteuid() else {"fork", "memory"})


@pytest.mark.parametrize("user, status, word", [(0, 1, "MISSING"), (1500, 0, "open")])
def test_the_limit_on_all_memory_is_promised_to_root_alone(needs_jail, monkeypatch, capsys, user, status, word):
    monkeypatch.setattr(Group, "make", classmethod(lambda group, limits: group()))
    monkeypatch.setattr(doctor, "ROUNDS", [probes for probes in doctor.ROUNDS if probes[0].key == "memory"])
    monkeypatch.setattr(doctor, "exposed", list)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert doctor.run() == status
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{word:<8} memory is bounded") and last.startswith("Student code is confined") != status


def test_a_folder_that_other_users_can_enter_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(doctor, "ROUNDS", [])
    monkeypatch.setattr(doctor, "exposed", lambda: [tmp_path])
    monkeypatch.setattr(bubblewrap, "problem", lambda: None)
    monkeypatch.setattr(doctor, "_examine_warm", lambda: 0)
    assert doctor.run() == 0
    assert f"open     other users of this machine can enter {tmp_path}" in capsys.readouterr().out


def found(monkeypatch, keys: set[str]) -> set[str]:
    """Those of these probes that get through."""
    rounds = [[probe for probe in probes if probe.key in keys] for probes in doctor.ROUNDS]
    monkeypatch.setattr(doctor, "ROUNDS", list(filter(None, rounds)))
    return {probe.key for probe, came in doctor.examine() if came}
