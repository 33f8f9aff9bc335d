"""The answer to what was asked of a session, in the forms that people use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet.errors import OptionError

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from watersmeet.runtime.clock import OnLateRows
    from watersmeet.runtime.host import Host
    from watersmeet.runtime.metrics import Metrics
from importlib import import_module

from watersmeet.errors import SetupError


class Result(ABC):
    """Iterating over it gives its rows as dicts."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._metrics: Metrics | None = None

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the answer."""

    @abstractmethod
    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        """The answer as it becomes certain."""

    @abstractmethod
    def final(self) -> pa.Table:
        """The answer at the end of bounded input."""

    @abstractmethod
    def dataframe(self, *, skip_batches: Collection[int] = ()) -> Any:
        """The answer as a Spark DataFrame."""

    def to_arrow(self, *, batch_rows: int = 1 << 16) -> pa.Table:
        """Run the query to the end of its inputs and give the whole answer."""
        return pa.Table.from_batches(self.batches(batch_rows=batch_rows), schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """Run the query to the end of its inputs; the answer as a pandas frame."""
        _needed("pandas", "to_pandas()", "pip install pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Run the query to the end of its inputs; the answer as a polars frame."""
        found: polars.DataFrame = _needed("polars", "to_polars()", "pip install polars").from_arrow(self.to_arrow())
        return found

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Run the query to the end of its inputs; the answer as a relation of DuckDB, to be queried on.

        connection: where the relation lives; DuckDB's default one if it is left out.
        """
        library = _needed("duckdb", "to_duckdb()", "pip install 'watersmeet[check]', or pip install duckdb")
        found: duckdb.DuckDBPyRelation = (library if connection is None else connection).from_arrow(self.to_arrow())
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Run the query; its rows as dicts, as they become certain."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def show(self, rows: int = 20, *, final: bool = False, width: int | None = None) -> None:
        """Run the query and print the first rows of its answer; in-process no more is read than these take.

        final: of an answer that changes, what it is at the last event, instead of its changes.
        width: how many columns of text fit; those of the terminal if it is left out.

        >>> from watersmeet import Session
        >>> session = Session()
        >>> session.stream("s", pa.table({"k": [1, 20, 3], "ts": pa.array([0, 1, 2], pa.timestamp("s"))}), time="ts")
        >>> session.sql("SELECT k, ts FROM s").show(2)
         k  ts
        --  -------------------
         1  1970-01-01 00:00:00
        20  1970-01-01 00:00:01
        (more rows follow)
        """
        from watersmeet.io.showing import text_table

        if not isinstance(rows, int) or rows < 1:
            raise OptionError(f"show() prints a whole number of rows, 1 or more, not {rows!r}")
        found = self.final() if final else self._first(rows + 1)
        more = "more rows follow" if found.num_rows > rows else "no rows" if not found.num_rows else ""
        print(text_table(found.slice(0, rows), more=more, width=width))

    def _first(self, rows: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        batches = self.batches()
        while sum(batch.num_rows for batch in found) < rows:
            batch = next(batches, None)
            if batch is None:
                break
            found.append(batch)
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        return pa.Table.from_batches(found, schema=self.schema).slice(0, rows)

    def metrics(self) -> dict[str, Any]:
        """The numbers of the latest run, all zero before the first; under `work` what a join algorithm counted."""
        from watersmeet.runtime.metrics import Metrics

        return (self._metrics or Metrics()).as_dict()


class KnownRows(Result):
    """An answer that nothing has to run for."""

    @abstractmethod
    def _rows(self) -> pa.Table: ...

    def batches(self, *, batch_rows: int = 1 << 16, on_late_rows: OnLateRows | None = None) -> Iterator[pa.RecordBatch]:
        check_batch_rows(batch_rows)
        return iter(self._rows().to_batches(max_chunksize=batch_rows))

    def final(self) -> pa.Table:
        return self._rows()

    def dataframe(self, *, skip_batches: Collection[int] = ()) -> Any:
        if skip_batches:
            raise OptionError("skip_batches is for queries that run, in batches", option="skip_batches")
        return self.host.framed(self._rows())


def check_batch_rows(batch_rows: object) -> None:
    if not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(
            f"batch_rows must be a whole number of rows, 1 or more, not {batch_rows!r}", option="batch_rows"
        )


def _needed(library: str, what: str, install: str) -> Any:
    """A library that is loaded when it is asked for, and said to be missing if it is."""
    try:
        return import_module(library)
    except ImportError:
        raise SetupError(f"{what} needs {library}, which is not installed", hint=install) from None
