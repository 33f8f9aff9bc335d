"""Rows that lie on disk and are read where they lie: a file without a name for each part, mapped into memory.

The files are opened nameless in the folder for temporary files, readable by nobody else, and belong to their mappings:
the space is free again when the last column of a part is let go, and at the latest when the process is gone, however it
ends.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from weakref import WeakSet

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.private_folders import temporary_root


class Disk:
    """Writes rows and gives them back as columns on disk."""

    def __init__(self) -> None:
        self._parts: WeakSet[mmap.mmap] = WeakSet()

    def put(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, in the same batches, but on disk."""
        try:
            part = self._written(batches)
        except OSError as error:
            size = sum(int(batch.nbytes) for batch in batches)
            raise RunError(
                f"the windows are larger than memory, and {size:,} bytes of them cannot be written to disk, in "
                f"{tempfile.gettempdir()}: {error.strerror or error}",
                hint="have TMPDIR name a folder with room, or allow more memory",
            ) from None
        self._parts.add(part)
        file = pa.ipc.open_file(pa.py_buffer(part))
        return (file.get_batch(i) for i in range(file.num_record_batches))

    def _written(self, batches: Sequence[pa.RecordBatch]) -> mmap.mmap:
        with TemporaryFile(prefix="watersmeet-window-", dir=temporary_root()) as file:
            with pa.ipc.new_file(pa.PythonFile(file, "w"), batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def rest(self) -> None:
        """What was read of the files need not stay in memory."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for part in self._parts:
                part.madvise(mmap.MADV_DONTNEED)
