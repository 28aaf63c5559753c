"""Attempts of hostile code to break out. `autograder.sandbox.doctor` runs this file in the jail, with Python alone.

It reads a line of JSON: {"probes": [{"probe": name, "key": key, ...}], ...}. For each probe it prints a line of JSON:
its key, and null if it failed, or words for what it could do. Each is bounded, and undoes what it did.
"""

import contextlib
import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import sys
import time

MB = 1 << 20
HOME = os.environ.get("HOME", "/")


def read(asked):
    seen = [path for path in asked["paths"] if _opens(path, os.O_RDONLY)]
    return f"can read {_some(seen)}" if seen else None


def write(asked):
    """A file that can be made may be in the jail alone, so the doctor looks for it outside, and removes it."""
    for folder in asked["folders"]:
        with contextlib.suppress(OSError):
            os.close(os.open(os.path.join(folder, asked["token"]), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    changed = [path for path in asked["files"] if _opens(path, os.O_WRONLY)]
    return f"can write to {_some(changed)}" if changed else None


def kernel(asked):
    """Settings of the machine. They belong to root, which may be the grader's user. Nothing is written."""
    settings = ("kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory")
    paths = [*(f"/proc/sys/{setting}" for setting in settings), "/proc/sysrq-trigger", "/proc/1/mem"]
    found = [path for path in paths if _opens(path, os.O_WRONLY)]
    return f"can write to {_some(found)}" if found else None


def loopback(asked):
    with contextlib.suppress(OSError), socket.socket() as client:  # there may be no sockets at all
        client.settimeout(2)
        client.connect(("127.0.0.1", asked["port"]))
        return "can connect to a server on this machine"
    return None


def unix_socket(asked):
    for address in (asked["socket"], "\0" + asked["token"]):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            client.connect(address)
            return "can connect to a Unix socket of this machine"
    return None


def other_sockets(asked):
    """Sockets that do not end at the network namespace: of packets, to the hypervisor, and to the kernel's ciphers."""
    kinds = {"PACKET": (17, socket.SOCK_RAW), "VSOCK": (40, socket.SOCK_STREAM), "ALG": (38, socket.SOCK_SEQPACKET)}
    found = []
    for name, (family, kind) in kinds.items():
        with contextlib.suppress(OSError):
            socket.socket(family, kind).close()
            found.append(f"AF_{name}")
    return f"can open sockets of {_some(found)}" if found else None


def see(asked):
    for entry in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError), open(f"/proc/{entry}/{name}", "rb") as file:
                if int(entry) != os.getpid() and asked["mark"].encode() in file.read():
                    return f"can see processes of this machine (/proc/{entry}/{name})"
    return None


def signals(asked):
    with contextlib.suppress(OSError):
        if asked["victim"] != os.getpid():
            os.kill(asked["victim"], signal.SIGCONT)  # which does nothing to a process that runs
            return "can send signals to processes of this machine"
    return None


def trace(asked):
    """Whether a child may have itself traced: what may trace at all may trace the first process of the jail."""
    return "can trace processes" if _in_a_child(lambda: ctypes.CDLL(None).ptrace(0, 0, None, None) == 0) else None


def namespaces(asked):
    names = {"user": 0x10000000, "mount": 0x20000, "network": 0x40000000}
    made = [name for name, flag in names.items() if _in_a_child(lambda: ctypes.CDLL(None).unshare(flag) == 0)]
    clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
    if clone and _in_a_child(lambda: ctypes.CDLL(None).syscall(clone, names["user"] | signal.SIGCHLD, 0, 0, 0, 0) >= 0):
        made.append("user, by clone")
    return f"can make namespaces of its own ({_some(made)})" if made else None


def mounts(asked):
    def mount():
        libc, folder = ctypes.CDLL(None), os.path.join(HOME, "mounted")
        libc.unshare(0x20000)  # a mount namespace of its own, if it may, so that nothing of the machine changes
        os.mkdir(folder)
        mounted = libc.mount(b"none", folder.encode(), b"tmpfs", 0, None) == 0
        if mounted:
            libc.umount2(folder.encode(), 2)
        os.rmdir(folder)
        return mounted

    return "can mount" if _in_a_child(mount) else None


def privileges(asked):
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    if int(status["CapEff"], 16) or int(status["CapPrm"], 16):
        return "has capabilities"
    if os.getuid() == 0 or _in_a_child(lambda: os.setuid(0) is None):
        return "is root, or can become so"
    return None if status["NoNewPrivs"].strip() == "1" else "can gain rights from a program that has them (set-user-id)"


def limits(asked):
    raised = []
    for name in ("AS", "NPROC", "NOFILE", "FSIZE", "CPU", "CORE"):
        kind = getattr(resource, f"RLIMIT_{name}")
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY:
                resource.setrlimit(kind, (hard, hard + 1))
                resource.setrlimit(kind, (hard, hard))
            raised.append(f"RLIMIT_{name}")
    return f"has no limit, or can raise its own ({_some(raised)})" if raised else None


def environment(asked):
    return "sees your environment" if asked["mark"] in "".join(os.environ.values()) else None


def fork(asked):
    most, children, (reads, writes) = asked["processes"] + 8, [], os.pipe()
    with contextlib.suppress(OSError):
        while len(children) < most:
            children.append(os.fork())
            if not children[-1]:
                os.close(writes)
                os.read(reads, 1)  # until the parent ends, or lets go
                os._exit(0)
    os.close(writes)
    for child in children:
        os.waitpid(child, 0)
    return f"can have {most} processes, where {asked['processes']} are allowed" if len(children) == most else None


def memory(asked):
    """Four processes, each within its own limit: two hold memory of their own, two hold memory that is a file's."""
    share = int(asked["memory"] * 0.4)
    (reads, writes), (stays, go) = os.pipe(), os.pipe()
    children = []
    for number in range(4):
        children.append(os.fork())
        if not children[-1]:
            os.close(go)
            with contextlib.suppress(Exception):
                kept = _filled(share, number < 2, asked["file_size"])
                os.close(writes)
                os.read(stays, 1)
                os._exit(0 if kept else 1)
            os._exit(1)
    os.close(writes)
    os.read(reads, 1)  # until each of them holds its share, or has ended
    os.close(go)
    held = [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    return f"can hold {4 * share >> 20} MB, where {asked['memory'] >> 20} are allowed" if held else None


def _filled(count, own, file_size):
    """That many bytes in use: of this process alone, or of files that exist in memory only."""
    if own:
        return bytearray(b"x") * count
    descriptors = []
    for begin in range(0, count // 2, file_size):
        descriptors.append(os.memfd_create("probe"))
        os.write(descriptors[-1], b"x" * min(file_size, count // 2 - begin))
    shared = mmap.mmap(-1, count // 2)  # anonymous and shared
    for begin in range(0, len(shared), mmap.PAGESIZE):
        shared[begin] = 1
    return descriptors, shared


def disk(asked):
    """Many files that are each small enough."""
    found = []
    for folder in (HOME, "/tmp", "/dev/shm"):
        made = [f"{folder}/{asked['token']}-{number}" for number in range(asked["scratch"] // MB + 4)]
        with contextlib.suppress(OSError):
            for path in made:
                with open(path, "wb") as file:
                    file.write(bytes(MB))
            found.append(folder)
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)
    return f"can write more than {asked['scratch'] >> 20} MB to {_some(found)}" if found else None


def big_file(asked):
    path = os.path.join(HOME, asked["token"])
    try:
        with open(path, "wb") as file:
            for _ in range(asked["file_size"] // MB + 1):
                file.write(bytes(MB))
        return f"can write a file of more than {asked['file_size'] >> 20} MB"
    except OSError:
        return None
    finally:
        os.unlink(path)


def processor(asked):
    def spin():
        while time.process_time() <= asked["cpu_seconds"] + 1:
            pass
        return True

    return f"can compute for more than {asked['cpu_seconds']} seconds" if _in_a_child(spin) else None


def outlive(asked):
    """A daemon. Whether it is still there after the jail, only the doctor can tell."""
    reads, writes = os.pipe()
    os.set_inheritable(writes, False)  # closed when the daemon has become another program
    if not os.fork():
        os.setsid()
        if not os.fork():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.close(reads)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            program = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", asked["daemon"]]
            os.execve(sys.executable, program, {})
        os._exit(0)
    os.close(writes)
    os.read(reads, 1)
    print(json.dumps({"key": asked["key"], "came": None}), flush=True)
    time.sleep(60)


def _opens(path, flags):
    with contextlib.suppress(OSError):
        os.close(os.open(path, flags | os.O_NONBLOCK))
        return True
    return False


def _in_a_child(action):
    if not (child := os.fork()):
        with contextlib.suppress(Exception):
            os._exit(0 if action() else 1)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _some(found):
    return ", ".join(found[:3]) + (", …" if len(found) > 3 else "")


def main(asked):
    for probe in asked["probes"]:
        try:
            came = globals()[probe["probe"]]({**asked, **probe})
        except Exception as error:
            came = f"the probe itself failed: {type(error).__name__}: {error}"
        print(json.dumps({"key": probe["key"], "came": came}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.stdin.readline()))
