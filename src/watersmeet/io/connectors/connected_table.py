"""A static table that a connector loads, anew for every run that joins it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.conform import check_columns, conform, held_columns, plain_schema
from watersmeet.io.connectors.contract import Connector, TableOpening
from watersmeet.noticing import phase
from watersmeet.warning import ConnectorWarning, warn

FRESH_S = 10.0  # what was loaded to look at its columns is not loaded again for a run that begins at once


class ConnectedTable:
    bounded = True
    at_hand = True
    known_rows: int | None = None

    def __init__(self, connector: Connector, opening: TableOpening, load: Callable[[], Any]) -> None:
        self.name = opening.name
        self.description = f"{connector.name} table"
        self._connector = connector.name
        self._declared = opening.columns
        self._load = load
        self._fresh: tuple[float, pa.Table] | None = None
        self.schema = self._declared if self._declared is not None else self._first().schema

    def batches(self, max_rows: int) -> Iterator[pa.RecordBatch]:
        table = self.loaded()
        for batch in table.to_batches(max_chunksize=max_rows):
            if batch.num_rows:
                yield conform(batch, self.schema)

    def loaded(self) -> pa.Table:
        """All of it, as it is now."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None and monotonic() - fresh[0] < FRESH_S:
            return fresh[1]
        return self._read()

    def _first(self) -> pa.Table:
        table = self._read()
        self._fresh = monotonic(), table
        return table

    def _read(self) -> pa.Table:
        with phase(f"loading table {self.name!r} from {self._connector}"):
            found = self._load()
        if not isinstance(found, pa.Table):
            raise SourceError(f"connector {self._connector!r}: table gave a {type(found).__name__}, no pyarrow.Table")
        if not found.num_rows:
            warn(
                ConnectorWarning(
                    "empty_table", f"table {self.name!r} was loaded from {self._connector} and has no rows"
                )
            )
        if self._declared is None:
            return found.cast(plain_schema(found.schema, self.description))
        held = held_columns(found.schema, self._declared, None)
        check_columns(found.schema, held, self.name, self.description)
        return found.select(held.names)
