"""Files of a static table that is loaded again: those that are there then, under the same path."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.files import FileSource


class ReopenedFiles:
    bounded = True
    at_hand = True

    def __init__(self, first: FileSource, open_again: Callable[[], FileSource]) -> None:
        self.schema, self.description, self.known_rows = first.schema, first.description, first.known_rows
        self._name = first.name
        self._open_again = open_again

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        opened = self._open_again()
        if not opened.schema.equals(self.schema):
            raise SourceError(
                f"the files of table {self._name!r} have other columns than before: {', '.join(opened.schema.names)}, "
                f"and they were {', '.join(self.schema.names)}, or of other types"
            )
        return opened.batches(max_rows)
