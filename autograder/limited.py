"""The first program in a jail: sets limits on itself, which nothing in it can raise, and becomes the program named.

Run as `limited.py MAPPED PROCESSES OPEN_FILES FILE_SIZE CPU_SECONDS PROGRAM...`. It uses the standard library alone.
"""

import os
import resource
import sys

names = ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU")
for name, value in (*zip(names, map(int, sys.argv[1:6])), ("RLIMIT_CORE", 0), ("RLIMIT_MEMLOCK", 0), ("RLIMIT_MSGQUEUE", 0)):
    hard = resource.getrlimit(getattr(resource, name))[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(getattr(resource, name), (value, value))
os.execv(sys.argv[6], sys.argv[6:])
