"""Files brought onto the disk beside other work."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from watersmeet.io.begun_sync import begun_sync

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc has it")


def test_what_is_begun_comes_to_its_end_again_and_again(tmp_path: Path) -> None:
    sync = begun_sync()
    assert sync is not None
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    for number in range(100):
        os.pwrite(file, b"x" * 100, 100 * number)
        sync.begin(file)
        sync.end()
    os.close(file)


def test_what_cannot_be_brought_there_is_an_error(tmp_path: Path) -> None:
    sync = begun_sync()
    assert sync is not None
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    os.close(file)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        sync.begin(file)
    out_of, into = os.pipe()  # which is no file of any disk
    sync.begin(into)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        sync.end()
    os.close(out_of)
    os.close(into)


def test_a_process_that_was_forked_does_without(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0 if begun_sync() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
