"""The first program in a jail: sets limits on itself, which nothing in it can raise, and becomes the program named.

Run as `set_limits.py SOCKETS MAPPED PROCESSES OPEN_FILES FILE_SIZE CPU_SECONDS PROGRAM...`. It uses the standard
library alone. SOCKETS is "sockets", or "no-sockets" where no namespace ends them: then the program starts only if the
kernel refuses all sockets.
"""

import ctypes
import errno
import os
import resource
import struct
import sys

# By machine: its name to the kernel (AUDIT_ARCH), and the numbers of socket and clone.
MACHINES = {"x86_64": (0xC000003E, 41, 56), "aarch64": (0xC00000B7, 198, 220)}
CLONE3 = 435
# And the numbers of calls that no answer needs: ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, which reach
# into other processes; add_key, request_key, keyctl, for keys of the user's session; unshare, setns; mount, umount2,
# pivot_root, open_tree, move_mount, fsopen, mount_setattr; bpf, userfaultfd, perf_event_open, io_uring_setup, where
# most of the kernel's holes have been.
REFUSED = {
    "x86_64": (101, 310, 311, 438, 248, 249, 250, 272, 308, 165, 166, 155, 428, 429, 430, 442, 321, 323, 298, 425),
    "aarch64": (117, 270, 271, 438, 217, 218, 219, 97, 268, 40, 39, 41, 428, 429, 430, 442, 280, 282, 241, 425),
}
NAMESPACES = 0x7E020000  # the flags of clone that make one
FAMILIES = (1, 2, 10, 16)  # Unix, IPv4, IPv6, netlink: these end at a network namespace; sockets to a hypervisor do not


def main(arguments: list[str]) -> None:
    limit([int(value) for value in arguments[1:6]])
    sockets = arguments[0] == "sockets"
    if not refuse_calls(FAMILIES if sockets else ()) and not sockets:
        sys.exit("the kernel filters no system calls")
    os.execv(arguments[6], arguments[6:])


def limit(values: list[int]) -> None:
    """Set limits on this process and its descendants: bytes mapped, processes, open files, bytes a file, seconds."""
    names = ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU")
    more = (("RLIMIT_CORE", 0), ("RLIMIT_MEMLOCK", 0), ("RLIMIT_MSGQUEUE", 0))
    for name, value in (*zip(names, values), *more):
        hard = resource.getrlimit(getattr(resource, name))[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(getattr(resource, name), (value, value))


def refuse_calls(families: tuple[int, ...] = FAMILIES) -> bool:
    """Have the kernel refuse those calls from now on, and sockets of other families.

    Returns False if it does not, or if this machine is not known.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        return False
    program = b"".join(struct.pack("HBBI", *step) for step in _filter(machine, families))
    steps = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(steps)))
    prctl = ctypes.CDLL(None).prctl
    prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    return prctl(22, 2, described) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _filter(machine: str, families: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """The steps of a seccomp filter: (code, steps to skip if true, if false, constant)."""
    architecture, socket, clone = MACHINES[machine]
    load, equal, at_least, any_of, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow = (give, 0, 0, 0x7FFF0000)
    no, no_call, no_family = ((give, 0, 0, 0x50000 | e) for e in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
    steps = [(load, 0, 0, 4), (equal, 1, 0, architecture), no]  # another architecture has other numbers
    steps += [(load, 0, 0, 0), (at_least, 0, 1, 0x40000000), no]
    for number in REFUSED[machine]:
        steps += [(equal, 0, 1, number), no]
    # The flags of clone3 lie in memory, where no filter looks: the C library falls back on clone.
    steps += [(equal, 0, 1, CLONE3), no_call]
    steps += [(equal, 0, 4, clone), (load, 0, 0, 16), (any_of, 0, 1, NAMESPACES), no, allow]
    allowed = [step for family in families for step in ((equal, 0, 1, family), allow)]
    return [*steps, (equal, 0, len(allowed) + 2, socket), (load, 0, 0, 16), *allowed, no_family, allow]


if __name__ == "__main__":
    main(sys.argv[1:])
