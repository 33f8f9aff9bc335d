"""Bringing a file onto the disk beside whatever else a thread does meanwhile, by the C library's `aio_fsync`.

A thread of Python's for it would wait for the interpreter, which the thread that has work to do holds, before it could
begin, and so begin when that work is done. The C library has a thread of its own that needs no interpreter. It is asked
for by a struct that glibc has kept as it is on 64-bit Linux since there is one; elsewhere there is no such thing here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_SIZE = 168  # of struct aiocb
_FILE, _NOTIFY = 0, 44  # where in it the file is, and how its end is told
_NOT_AT_ALL = 1  # SIGEV_NONE: whoever wants to know waits


class BegunSync:
    """One at a time: `begin`, then `end`."""

    def __init__(self) -> None:
        # Only what waits lets go of the interpreter: whoever gets it may keep it for long.
        self._library, self._waiting = ctypes.PyDLL(None, use_errno=True), ctypes.CDLL(None)
        self._library.aio_return.restype = ctypes.c_ssize_t
        self._asked = ctypes.create_string_buffer(_SIZE)
        self._at = ctypes.c_void_p(ctypes.addressof(self._asked))
        self._all = (ctypes.c_void_p * 1)(self._at)

    def begin(self, file: int) -> None:
        """As os.fdatasync, which it does not wait for."""
        ctypes.memset(self._asked, 0, _SIZE)
        struct.pack_into("=i", self._asked, _FILE, file)
        struct.pack_into("=i", self._asked, _NOTIFY, _NOT_AT_ALL)
        if self._library.aio_fsync(os.O_DSYNC, self._at):
            raise _os_error(ctypes.get_errno())

    def end(self) -> None:
        """Return when it is on the disk."""
        while (error := self._library.aio_error(self._at)) == errno.EINPROGRESS:
            self._waiting.aio_suspend(self._all, 1, None)
        self._library.aio_return(self._at)
        if error:
            raise _os_error(error)


def begun_sync() -> BegunSync | None:
    """None where the C library is another."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8 or platform.libc_ver()[0] != "glibc":
        return None
    library = ctypes.CDLL(None)
    if _forked or not all(hasattr(library, name) for name in ("aio_fsync", "aio_error", "aio_suspend", "aio_return")):
        return None
    return BegunSync()


# A process that was forked has none of the threads that the C library had, and it does not know that.
_forked: list[bool] = []
os.register_at_fork(after_in_child=lambda: _forked.append(True))


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
