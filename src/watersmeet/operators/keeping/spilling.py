"""Keeps every row, those beyond a bound on the memory with their columns on disk: H02's buffers whose tail is swapped.

Times, keys and indexes stay in memory, as every new row looks at them. Columns that only results need are looked at
when a combination was found, and those of the oldest rows least often; so they go first, many rows at a time.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from weakref import WeakSet

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.operators.join.door import Admitted
from watersmeet.operators.join.keeping import Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_store import WindowStore
from watersmeet.operators.payload import ChunkedColumn, Positions
from watersmeet.plan.spilling import Spilling
from watersmeet.private_folders import temporary_root


class Disk:
    """Writes rows and gives them back as columns on disk, read where they lie: a file without a name for each part,
    mapped into memory.

    The files are opened nameless in the folder for temporary files, readable by nobody else, and belong to their
    mappings: the space is free again when the last column of a part is let go, and at the latest when the process is
    gone, however it ends.
    """

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


# Rows come in pieces of so many, so that what has just come is little beside the bound.
PIECE_ROWS = 4096
# Of the room that times, keys and indexes leave, so much is free after rows went to disk. If they leave less than an
# eighth of the bound, files would become many and small.
FREED = 0.5
LEAST_ROOM = 1 / 8


class SpillingColumn(ChunkedColumn):
    """A column whose first chunks lie on disk."""

    def __init__(self, data_type: pa.DataType) -> None:
        super().__init__(data_type)
        self.on_disk = 0
        self.was_read = False  # whether a gather has read from disk

    @property
    def nbytes(self) -> int:
        """In memory."""
        return sum(int(chunk.nbytes) for chunk in self.chunks[self.on_disk :])

    def _worth_merging(self) -> bool:
        return len(self.chunks) - 2 >= self.on_disk and super()._worth_merging()

    def gather(self, positions: Positions) -> pa.Array:
        if self.on_disk and len(positions):
            past = self.starts[self.on_disk] if self.on_disk < len(self.starts) else positions.max() + 1
            self.was_read = self.was_read or bool(positions.min() < past)
        return super().gather(positions)

    def relocate(self, tail: int, count: int, capacity: int) -> None:
        before = len(self.chunks)
        super().relocate(tail, count, capacity)
        self.on_disk = max(0, self.on_disk - (before - len(self.chunks)))

    def forget(self, tail: int) -> None:
        """Let go of chunks all of whose rows lie before a position, and of their files."""
        gone = 0
        while gone < len(self.chunks) and self.starts[gone] + len(self.chunks[gone]) <= tail:
            gone += 1
        self.chunks, self.starts = self.chunks[gone:], self.starts[gone:]
        self.on_disk = max(0, self.on_disk - gone)

    def keep(self, positions: Positions, capacity: int) -> None:
        super().keep(positions, capacity)
        self.on_disk = 0

    def loaded(self) -> None:
        """Chunks came from elsewhere, in memory until they are written again."""
        self.on_disk = 0


class SpillingStore(WindowStore):
    """A store whose columns beside times and codes may lie on disk. All have their chunks at the same rows."""

    payload: dict[str, SpillingColumn]  # type: ignore[assignment]

    @property
    def chunks_in_memory(self) -> int:
        columns = list(self.payload.values())
        return len(columns[0].chunks) - columns[0].on_disk if columns else 0

    def spill(self, size: int, disk: Disk) -> tuple[int, int]:
        """Write the oldest chunks, until so many bytes are freed or all are written; how many rows and bytes went."""
        columns = self.payload
        first = next(iter(columns.values())).on_disk
        batches: list[pa.RecordBatch] = []
        freed = 0
        for i in range(first, first + self.chunks_in_memory):
            if freed >= size:
                break
            batch = pa.RecordBatch.from_arrays([one.chunks[i] for one in columns.values()], names=list(columns))
            batches.append(batch)
            freed += int(batch.nbytes)
        written = list(disk.put(batches)) if batches else []
        for i, batch in enumerate(written, first):
            for name, column in columns.items():
                column.chunks[i] = batch.column(name)
        for column in columns.values():
            column.on_disk = first + len(written)
        return sum(batch.num_rows for batch in batches), freed


class SpillingMemory(Keeping):
    """Holds no more than the bound in memory, and gives up nothing."""

    def __init__(self, layout: Layout, spilling: Spilling) -> None:
        self.spilling = spilling
        self.disk = Disk()
        super().__init__(layout)

    def make_store(self, alias: str) -> WindowStore:
        layout = self.layout
        codes, keys = len(layout.code_positions[alias]), layout.index_keys(alias)
        store = SpillingStore(codes, *keys, counted=alias in layout.mortal)
        store.payload = {name: SpillingColumn(kind) for name, kind in layout.payload(alias).items()}
        return store

    @property
    def piece_rows(self) -> int | None:
        return PIECE_ROWS

    def store(self, alias: str, admitted: Admitted) -> None:
        super().store(alias, admitted)
        self._keep_to_bound()

    def advanced(self, complete_until: int) -> None:
        for store in self._spilling_stores():
            for column in store.payload.values():
                column.forget(store.tail)

    def _spilling_stores(self) -> list[SpillingStore]:
        return [store for store in self.stores.values() if isinstance(store, SpillingStore)]

    def _keep_to_bound(self) -> None:
        stores = self._spilling_stores()
        self._let_pages_go(stores)
        in_memory = self.state_bytes
        if in_memory <= self.spilling.size:
            return
        columns = sum(column.nbytes for store in stores for column in store.payload.values())
        room = self.spilling.size - (in_memory - columns)
        if room < self.spilling.size * LEAST_ROOM:
            self._refuse(in_memory - columns)
        excess = columns - int(room * FREED)
        # Those that take most first; each stream gives its oldest rows.
        for store in sorted(stores, key=lambda one: -sum(column.nbytes for column in one.payload.values())):
            if excess > 0 and store.chunks_in_memory:
                rows, size = store.spill(excess, self.disk)
                excess -= size
                self.counters.spilled_rows += rows
                self.counters.spilled_bytes += size
        # What was freed goes back to the system, or the process would not become smaller.
        pa.default_memory_pool().release_unused()

    def _let_pages_go(self, stores: list[SpillingStore]) -> None:
        columns = [column for store in stores for column in store.payload.values()]
        if any(column.was_read for column in columns):
            self.disk.rest()
            for column in columns:
                column.was_read = False

    def _refuse(self, held: int) -> None:
        written = self.spilling.written or f"{self.spilling.size} bytes"
        raise RunError(
            f"memory = {written!r} is too little to spill: times, keys and indexes of the {self.kept_rows:,} rows in "
            f"the windows stay in memory and take {held:,} bytes, of which an eighth of the memory must be left for "
            "the rest",
            hint=f"write memory = '{held * 5 // 4 // 1_000_000 + 1} MB' or more, or shorter windows, or let rows go: "
            "when_full = 'shed'",
        )
