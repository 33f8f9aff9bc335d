"""Every connector of ours is held to the contract, by the checks that a user's own is held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.connectors import shelf
from tests.databases.places import file_place
from tests.docs.test_shown import ROOT
from tests.lakes import opened
from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.contract import NumberedSink, Offsets, SinkOpening, SourceBatch, SourceOpening, Split
from watersmeet.io.connectors.local_files import LocalFiles
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.io.connectors.registry import OURS, connector_named, opener_of
from watersmeet.io.files import open_files
from watersmeet.testing import SINK_CHECKS, SOURCE_CHECKS, SinkCase, SourceCase, check_sink, check_source

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])
OTHER = pa.schema([("k", pa.string()), ("w", pa.float64())])
RUN = "0123456789ab"


def rows(first: int, many: int) -> pa.Table:
    numbers = list(range(first, first + many))
    return pa.table({"k": numbers, "v": [f"v{one}" for one in numbers]}, COLUMNS)


def batch(first: int, many: int) -> pa.RecordBatch:
    return rows(first, many).combine_chunks().to_batches()[0]


# ---- sources --------------------------------------------------------------------------------------------------------


def of_files(folder: Path) -> SourceCase:
    numbers = count()

    def put(table: pa.Table) -> None:
        pq.write_table(table, folder / f".{next(numbers)}")
        newest = max(folder.glob(".[0-9]*"), key=lambda path: int(path.name[1:]))
        newest.rename(folder / f"{newest.name[1:]}.parquet")
        time.sleep(0.002)  # files that come later are changed later

    return SourceCase(lambda: opened.source("files", COLUMNS, path=f"file://{folder}", format="parquet"), put, rows)


def of_path(folder: Path) -> SourceCase:
    """A source without a connector, of files of this machine."""

    def opened_path() -> LocalFiles:
        files = open_files("s", str(folder), "parquet", {}, COLUMNS, may_be_empty=True)
        return LocalFiles("s", str(folder), "parquet", files)

    return replace(of_files(folder), open=opened_path)


def of_delta(folder: Path) -> SourceCase:
    deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'watersmeet[delta]'")

    def at(start: str) -> Callable[[], Any]:
        return lambda: opened.source("delta", path=str(folder / "t"), start=start)

    def put(table: pa.Table) -> None:
        deltalake.write_deltalake(folder / "t", table, mode="append")

    return SourceCase(at("earliest"), put, rows, at("latest"))


def lake_options(folder: Path) -> dict[str, str]:
    pytest.importorskip("pyiceberg", reason="needs pyiceberg: pip install 'watersmeet[iceberg]'")
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy: pip install 'watersmeet[iceberg]'")
    return {
        "table": "db.t",
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{folder}/catalog.db",
        "catalog.warehouse": f"file://{folder}/warehouse",
    }


def lake(folder: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    given = {name.removeprefix("catalog."): value for name, value in lake_options(folder).items() if "." in name}
    found = load_catalog("default", **given)
    found.create_namespace_if_not_exists("db")
    return found


def of_iceberg(folder: Path) -> SourceCase:
    options = {name.replace(".", "__"): value for name, value in lake_options(folder).items()}

    def at(start: str) -> Callable[[], Any]:
        return lambda: opened.source("iceberg", start=start, **options)

    def put(table: pa.Table) -> None:
        lake(folder).create_table_if_not_exists("db.t", COLUMNS).append(table)

    return SourceCase(at("earliest"), put, rows, at("latest"))


def of_shelves(folder: Path) -> SourceCase:
    """The tests' own, of which a user's would be like."""
    numbers = count()

    def at(start: str) -> Callable[[], Any]:
        return lambda: shelf.open_source(SourceOpening("s", {"folder": str(folder), "start": start}, COLUMNS))

    def put_into(partition: str) -> Callable[[pa.Table], None]:
        return lambda table: shelf.put(folder, partition, table)

    def put(table: pa.Table) -> None:
        put_into("a" if next(numbers) % 2 else "b")(table)

    return SourceCase(at("earliest"), put, rows, at("latest"), put_into("c"))


SOURCES = {"files": of_files, "path": of_path, "delta": of_delta, "iceberg": of_iceberg, "shelf": of_shelves}


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_the_contract(name: str, check: Callable[[SourceCase], None], tmp_path: Path) -> None:
    check(SOURCES[name](tmp_path))


# ---- sinks ----------------------------------------------------------------------------------------------------------


def opening(**options: str) -> SinkOpening:
    return SinkOpening("out", options, COLUMNS, RUN)


def opener(name: str) -> Callable[[SinkOpening], NumberedSink]:
    connector = connector_named(name)
    assert connector is not None
    found = opener_of(connector, "sink")
    assert found is not None
    return found


def folder_sink(asked: SinkOpening) -> NumberedSink:
    """A sink without a connector, of files of this machine."""
    given = {"committed": asked.committed if not asked.makes_anew else -1, "start": asked.start}
    return numbered_sink(asked.name, asked.options, asked.schema, asked.run, tell=lambda what: None, **given)  # type: ignore[arg-type]


def files_in(folder: Path) -> list[dict[str, Any]]:
    visible = [path for path in sorted(folder.rglob("*.parquet")) if not path.name.startswith((".", "_"))]
    return [row for path in visible for row in pq.ParquetFile(path).read().to_pylist()]


def into_folder(folder: Path) -> SinkCase:
    path = folder / "out"
    return SinkCase(folder_sink, opening(sink="parquet", path=str(path)), batch, lambda: files_in(path))


def into_partitions(folder: Path) -> SinkCase:
    path = folder / "out"

    def read() -> list[dict[str, Any]]:
        paths = sorted(path.rglob("*.parquet"))
        found = [(one.parent.name.removeprefix("v="), pq.ParquetFile(one).read().to_pylist()) for one in paths]
        return [{**row, "v": value} for value, some in found for row in some]

    return SinkCase(folder_sink, opening(sink="parquet", path=str(path), partition_by="v"), batch, read)


def into_store(folder: Path) -> SinkCase:
    path = folder / "out"
    asked = opening(sink="parquet", path=f"file://{path}")
    return SinkCase(opener("files"), asked, batch, lambda: files_in(path) if path.exists() else [])


def into_delta(folder: Path) -> SinkCase:
    deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'watersmeet[delta]'")
    path = folder / "t"

    def read() -> list[dict[str, Any]]:
        return list(pa.table(deltalake.DeltaTable(path).to_pyarrow_table()).to_pylist())

    return SinkCase(opener("delta"), opening(path=str(path)), batch, read, OTHER)


def into_iceberg(folder: Path) -> SinkCase:
    asked = opening(**lake_options(folder))

    def read() -> list[dict[str, Any]]:
        return list(lake(folder).load_table("db.t").scan().to_arrow().to_pylist())

    return SinkCase(opener("iceberg"), asked, batch, read, OTHER)


def into_database(name: str) -> Callable[[Path], SinkCase]:
    def made(folder: Path) -> SinkCase:
        place = file_place(name, folder)

        def read() -> list[dict[str, Any]]:
            return [{"k": k, "v": v} for k, v in place.run('SELECT k, v FROM "out"')]

        return SinkCase(opener(name), opening(**place.options), batch, read, OTHER)

    return made


def into_shelf(folder: Path) -> SinkCase:
    def read() -> list[dict[str, Any]]:
        return list(shelf.written(folder).to_pylist()) if any(folder.glob("*.arrow")) else []

    return SinkCase(shelf.ShelfSink, opening(folder=str(folder)), batch, read)


SINKS = {
    "folder": into_folder,
    "partitioned folder": into_partitions,
    "files": into_store,
    "delta": into_delta,
    "iceberg": into_iceberg,
    "sqlite": into_database("sqlite"),
    "duckdb": into_database("duckdb"),
    "shelf": into_shelf,
}
ELSEWHERE = {
    "source": {"kafka"},
    "sink": {"kafka", "postgres"},
}  # where there is a server: tests/kafka, tests/databases


@pytest.mark.parametrize("check", SINK_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", SINKS)
def test_a_sink_keeps_the_contract(name: str, check: Callable[[SinkCase], None], tmp_path: Path) -> None:
    check(SINKS[name](tmp_path))


@pytest.mark.parametrize(("half", "held"), [("source", SOURCES), ("sink", SINKS)])
def test_none_of_ours_is_left_out(half: str, held: dict[str, Any]) -> None:
    has = {name for name in OURS if getattr(connector_named(name), half) is not None}
    missing = sorted(has - {*held, *ELSEWHERE[half]})
    assert not missing, f"nothing holds the {half} of {missing} to the contract: make a case for it in this file"


def test_the_page_of_connectors_has_all_of_ours() -> None:
    table = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8").partition("\n\n## ")[0]
    missing = [name for name in OURS if name != "files" and f"`{name}`" not in table]  # of those it tells the formats
    assert not missing, f"the table of docs/connectors.md lacks {missing}"


# ---- connectors that do not keep it ---------------------------------------------------------------------------------


class Forgetful(shelf.ShelfSource):
    """Has other rows when they are read again."""

    def read(self, split: Split) -> Iterator[SourceBatch]:
        for one in super().read(split):
            yield SourceBatch(one.rows.slice(next(_reads) % 3))


class Restless(shelf.ShelfSource):
    """Goes on though nothing came."""

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return {**super().newest(after, most_rows), "clock": next(_reads)}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [one for one in super().splits(after, upto) if one.partition != "clock"]


class Cutting(shelf.ShelfSource):
    """Leaves out what a limit does not let through."""

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return super().newest(after) if most_rows is None else dict(after) or super().newest(after, 1)


class Gapped(shelf.ShelfSource):
    """Splits that do not follow each other."""

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [two for one in super().splits(after, upto) for two in (one, one)]


class Starting(shelf.ShelfSource):
    """Begins at the latest whenever it is asked for what is new."""

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        return dict(after) if self.start == "latest" else super().newest(after, most_rows)


class Settled(shelf.ShelfSource):
    """Knows only the partitions that it began with."""

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        found = super().newest(after, most_rows)
        return {one: offset for one, offset in found.items() if not after or one in after}


class Rereading(shelf.ShelfSource):
    """Reads all of it whenever something is new."""

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [Split(one.partition, 0, one.upto) for one in super().splits(after, upto)]


class Closed(shelf.ShelfSource):
    """Is good for nothing once it was closed."""

    def close(self) -> None:
        object.__setattr__(self, "folder", "/nowhere")


_reads = count()
BROKEN_SOURCES = {
    Forgetful: "reads_the_same_again_and_elsewhere",
    Restless: "has_nothing_beyond_what_came",
    Cutting: "comes_in_steps_to_the_same",
    Gapped: "divides_a_partition_without_gaps",
    Starting: "begins_at_the_latest_for_good",
    Settled: "takes_in_new_partitions",
    Rereading: "goes_on_behind_what_was_read",
    Closed: "can_be_closed_twice_and_used_again",
}


@pytest.mark.parametrize("broken", BROKEN_SOURCES, ids=lambda one: one.__name__)
def test_what_a_source_does_not_keep_is_found(broken: type[shelf.ShelfSource], tmp_path: Path) -> None:
    good = of_shelves(tmp_path)
    folder = str(tmp_path)
    case = replace(good, open=lambda: broken(folder, COLUMNS), latest=lambda: broken(folder, COLUMNS, "latest"))
    (check,) = (one for one in SOURCE_CHECKS if one.__name__ == BROKEN_SOURCES[broken])
    with pytest.raises((AssertionError, SourceError)):
        check(case)


class Repeating(shelf.ShelfSink):
    """Takes a number twice."""

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        super().commit(max(number, self.committed() + 1), rows)


class Remembering(shelf.ShelfSink):
    """Knows only what it has written itself."""

    def __init__(self, opening: SinkOpening) -> None:
        super().__init__(opening)
        self._number = -1

    def committed(self) -> int:
        return self._number

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        super().commit(number, rows)
        self._number = max(self._number, number)


class Looking(Remembering):
    """The same, but for what was there when it was opened: it writes behind another start."""

    def __init__(self, opening: SinkOpening) -> None:
        super().__init__(opening)
        self._number = shelf.ShelfSink.committed(self)


class Sharing(shelf.ShelfSink):
    """Takes the numbers of other runs for its own."""

    def __init__(self, opening: SinkOpening) -> None:
        super().__init__(replace(opening, run=RUN))


class Silent(shelf.ShelfSink):
    """What is gone, it makes anew without a word."""

    may_forget = True

    def committed(self) -> int:
        return max(super().committed(), self.opening.committed)


BROKEN_SINKS = {
    Repeating: "commits_each_number_once",
    Remembering: "goes_on_when_it_is_opened_again",
    Looking: "is_owned_by_the_newest_start",
    Sharing: "has_nothing_of_another_run",
    Silent: "misses_what_it_has_written_before",
}


@pytest.mark.parametrize("broken", BROKEN_SINKS, ids=lambda one: one.__name__)
def test_what_a_sink_does_not_keep_is_found(broken: type[shelf.ShelfSink], tmp_path: Path) -> None:
    case = replace(into_shelf(tmp_path), open=broken)
    (check,) = (one for one in SINK_CHECKS if one.__name__ == BROKEN_SINKS[broken])
    with pytest.raises((AssertionError, SinkError)):
        check(case)


def test_a_kit_goes_through_all_checks(tmp_path: Path) -> None:
    places = count()

    def place() -> Path:
        folder = tmp_path / str(next(places))
        folder.mkdir()
        return folder

    check_source(lambda: of_shelves(place()))
    check_sink(lambda: into_shelf(place()))
    assert next(places) == len(SOURCE_CHECKS) + len(SINK_CHECKS)
