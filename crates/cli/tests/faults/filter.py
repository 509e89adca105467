"""Refuses some system calls for the program that it becomes, as the seccomp filters of containers do.

filter.py [--user ID] [--without namespaces,landlock] -- COMMAND...
"""

import argparse
import ctypes
import os
import platform
import struct

ALLOW, REFUSE, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
LOAD, EQUAL, MASKED, RETURN = 0x20, 0x15, 0x45, 0x06

# Numbers of x86-64 and of the generic table.
X86 = platform.machine() == "x86_64"
CLONE, UNSHARE, MOUNT, SETNS, PIVOT, CHROOT, CLONE3 = (56, 272, 165, 308, 155, 161, 435) if X86 else (220, 97, 40, 268, 41, 51, 435)
KEYCTL, PTRACE, BPF, PERF, USERFAULT = (250, 101, 321, 298, 323) if X86 else (219, 117, 280, 241, 282)
# New namespaces in the flags of clone.
NAMESPACES = 0x7E020000


def refused(number, error):
    return [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | error)]


def program(without):
    steps = [(LOAD, 0, 0, 0)]
    # What the default filter of a container refuses to a process without capabilities.
    for number in [KEYCTL, PTRACE, BPF, PERF, USERFAULT]:
        steps += refused(number, EPERM)
    if "namespaces" in without:
        for number in [UNSHARE, MOUNT, SETNS, PIVOT, CHROOT]:
            steps += refused(number, EPERM)
        steps += refused(CLONE3, ENOSYS)
        # The flags are the first argument; then the number again.
        steps += [(EQUAL, 0, 3, CLONE), (LOAD, 0, 0, 16), (MASKED, 0, 1, NAMESPACES), (RETURN, 0, 0, REFUSE | EPERM), (LOAD, 0, 0, 0)]
    if "landlock" in without:
        for number in [444, 445, 446]:
            steps += refused(number, ENOSYS)
    return steps + [(RETURN, 0, 0, ALLOW)]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--user", type=int)
    options.add_argument("--without", default="")
    options.add_argument("command", nargs="+")
    options = options.parse_args()
    if options.user is not None:
        os.setgroups([])
        os.setresgid(options.user, options.user, options.user)
        os.setresuid(options.user, options.user, options.user)
    steps = program(options.without.split(","))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "no new privileges"
    assert libc.prctl(22, 2, described, 0, 0) == 0, os.strerror(ctypes.get_errno())
    os.execvp(options.command[0], options.command)


main()
