"""
Runs a program with no network but loopback: ``python -m tests.cli.offline PROGRAM ...``.

Needs the right to make network namespaces, as root has in most containers; exit code 77 where it is missing.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
NOT_ALLOWED = 77

if __name__ == "__main__":
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        sys.exit(NOT_ALLOWED)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    os.execvp(sys.argv[1], sys.argv[1:])
