"""A connector that does what the contract does not allow ends in a sentence that names it and the call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from inspect import signature
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.durable.input_queue import InputQueue
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.contract import (
    Connector,
    NumberedSink,
    Options,
    PartitionedSource,
    Reader,
    SourceBatch,
    Split,
)
from watersmeet.model.stream_options import options_of
from watersmeet.runtime.clock import StreamClock

COLUMNS = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
ROWS = pa.record_batch({"k": [1, 2], "ts": pa.array([0, 1], pa.timestamp("us"))}, schema=COLUMNS)


@dataclass
class Source(PartitionedSource):
    """Well-behaved, but for what a test lays over it."""

    wrong: dict[str, Any] = field(default_factory=dict)
    schema: Any = COLUMNS
    description: str = "odd"

    def _or(self, call: str, right: Any) -> Any:
        given = self.wrong.get(call, right)
        if isinstance(given, Exception):
            raise given
        return given

    def begin(self) -> Any:
        return self._or("begin", {"0": 0})

    def newest(self, after: Any, most_rows: int | None = None) -> Any:
        return self._or("newest", {"0": 1})

    def splits(self, after: Any, upto: Any) -> Any:
        if after == upto:
            return []
        return self._or("splits", [Split("0", 0, 1)])

    def read(self, split: Split) -> Any:
        return iter(self._or("read", [SourceBatch(ROWS)]))

    def close(self) -> None:
        self._or("close", None)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    registry.forget("odd")


def answered(source: Any) -> pa.Table:
    wm.register_connector(Connector("odd", source=lambda _: source, source_options=Options(())))
    session = wm.Session()
    session.stream("s", source="odd", time="ts")
    return session.sql("SELECT k FROM s").to_arrow()


def told(source: object) -> str:
    with pytest.raises(wm.SourceError) as error:
        answered(source)
    return error.value.message


def test_a_connector_that_does_as_it_should_is_read() -> None:
    assert answered(Source())["k"].to_pylist() == [1, 2]


BREAKS: dict[str, tuple[dict[str, Any], str]] = {
    "begins with a list": ({"begin": [1]}, "begin() gave [1], not offsets by the names of partitions"),
    "begins with numbers as partitions": ({"begin": {0: 1}}, "begin() gave {0: 1}, not offsets"),
    "offsets that are no JSON": ({"newest": {"0": object()}}, "newest() gave offsets that are no JSON"),
    "goes back": ({"begin": {"0": 5}}, "newest() went back in partition '0', from 5 to 1"),
    "parts that are none": ({"splits": [("0", 0, 1)]}, "splits() gave ('0', 0, 1), which is no Split"),
    "parts with a gap": (
        {"splits": [Split("0", 3, 5)]},
        "splits() gave a part of partition '0' behind 3, but 0 was to come next",
    ),
    "rows that are none": ({"read": [ROWS]}, "read() gave a RecordBatch, not a SourceBatch with a RecordBatch"),
    "other columns": (
        {"read": [SourceBatch(ROWS.select(["k"]))]},
        "read() gave rows with (k int64), but its schema says (k int64, ts timestamp[us])",
    ),
    "other types": (
        {"read": [SourceBatch(pa.record_batch({"k": ["x"], "ts": pa.array([0], pa.timestamp("us"))}))]},
        "read() gave rows with (k string, ts timestamp[us]), but its schema says (k int64, ts timestamp[us])",
    ),
    "bad records of another form": (
        {"read": [SourceBatch(ROWS, ROWS)]},
        "read() gave bad records that have not the columns of BAD_RECORDS",
    ),
    "fails in its own way": (
        {"read": ZeroDivisionError("by zero\nmore")},
        "failed in read(): ZeroDivisionError: by zero",
    ),
    "fails without a word": ({"newest": KeyError()}, "failed in newest(): KeyError: without a word"),
    "fails at the end": ({"close": OSError("gone")}, "failed in close(): OSError: gone"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_a_source_may_not_do(name: str) -> None:
    wrong, sentence = BREAKS[name]
    message = told(Source(wrong))
    assert sentence in message
    assert "connector 'odd'" in message
    assert "\n" not in message


def test_a_source_without_columns_or_calls() -> None:
    assert told(Source(schema=None)) == "connector 'odd': schema is a NoneType, not a pyarrow.Schema"
    assert told(7) == "the source of connector 'odd' is a int, which does not derive from PartitionedSource"


def test_a_source_that_cannot_be_opened() -> None:
    def failing(opening: object) -> Any:
        raise RuntimeError("no route")

    wm.register_connector(Connector("odd", source=failing))
    with pytest.raises(wm.SourceError, match="connector 'odd' failed in source: RuntimeError: no route"):
        wm.Session().stream("s", source="odd", time="ts")


def test_a_half_that_is_not_there() -> None:
    wm.register_connector(Connector("odd", table=lambda _: pa.table({})))
    with pytest.raises(wm.SourceError, match="'odd' cannot be read as a stream") as error:
        wm.Session().stream("s", source="odd", time="ts")
    assert "CREATE TABLE" in str(error.value.hint)


def test_a_sink_that_fails_or_lacks_a_call(tmp_path: Path) -> None:
    class Half(NumberedSink):
        def commit(self, number: int, rows: object) -> None:
            raise ValueError("full")

    session = wm.Session()
    session.stream("s", pa.Table.from_batches([ROWS]), time="ts")
    wm.register_connector(Connector("odd", sink=lambda _: Half()))  # type: ignore[abstract]
    with pytest.raises(wm.SinkError, match=r"connector 'odd' failed in sink: TypeError: .* abstract .*committed"):
        session.run("CREATE SINK o WITH (sink = 'odd') AS SELECT k FROM s")

    class Full(Half):
        def committed(self) -> int:
            return -1

    wm.register_connector(Connector("odd", sink=lambda _: Full()))
    with pytest.raises(wm.SinkError, match=r"connector 'odd' failed in commit\(\): ValueError: full"):
        session.run("CREATE SINK o WITH (sink = 'odd') AS SELECT k FROM s")


def test_rows_other_than_before_are_noticed(tmp_path: Path) -> None:
    source = Source()
    wm.register_connector(Connector("odd", source=lambda _: source))
    session = wm.Session()
    session.stream("s", source="odd", time="ts", lateness="1 second")
    reader_of_again = _reader(session)
    piece = reader_of_again.poll(1)
    source.wrong["read"] = [SourceBatch(ROWS.slice(0, 0))]
    with pytest.raises(
        wm.SourceError, match=r"partition '0' has 0 rows behind 0 up to 1, but 1 were read there before"
    ):
        _reader(session).again(piece.range)
    source.wrong["read"] = [SourceBatch(ROWS), SourceBatch(ROWS)]
    with pytest.raises(wm.SourceError, match="has more than 2 rows"):
        _reader(session).again(["0", 0, 1, 0, 2, True])


def _reader(session: wm.Session, name: str = "s") -> Any:
    from watersmeet.io.connectors.readers import reader_of

    return reader_of(session.catalog.find(name))  # type: ignore[arg-type]


class Waiting(Reader):
    """A reader of its own, of which one thing may be wrong."""

    def __init__(self, **wrong: Any) -> None:
        self.wrong = wrong

    def poll(self, most_rows: int) -> Any:
        return self._given("poll", SourceBatch(ROWS, range=[0, 1]))

    def again(self, range: Any) -> Any:
        return self._given("again", SourceBatch(ROWS, range=range))

    def position_after(self, range: Any) -> Any:
        return self._given("position_after", 1)

    def resume(self, position: Any) -> None:
        self._given("resume", None)

    def _given(self, call: str, right: Any) -> Any:
        found = self.wrong.get(call, right)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_reader_that_cannot_close_has_lost_nothing_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    unheard: list[Any] = []
    monkeypatch.setattr("threading.excepthook", unheard.append)
    reader = Waiting(poll=None)
    monkeypatch.setattr(reader, "close", lambda: 1 / 0)
    intake = InputQueue({"s": reader}, {"s": cast(StreamClock, None)})
    intake.start()
    intake.close(RuntimeError("the run has ended"))
    assert unheard == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"poll": ValueError("lost")}, r"connector 'odd' failed in poll\(\) of its reader: ValueError: lost"),
        ({"poll": 7}, r"connector 'odd': poll\(\) of its reader gave a int, not a SourceBatch"),
        ({"poll": SourceBatch(ROWS, range=object())}, r"poll\(\) of its reader gave a range that is no JSON"),
        (
            {"poll": SourceBatch(ROWS.select(["k"]), range=1)},
            r"connector 'odd': poll\(\) of its reader gave rows with \(k int64\), but",
        ),
        ({"again": 7}, r"again\(\) of its reader gave a int, not a SourceBatch with a RecordBatch"),
        ({"again": KeyError("k")}, r"connector 'odd' failed in again\(\) of its reader: KeyError"),
        ({"resume": OSError("no")}, r"connector 'odd' failed in resume\(\) of its reader: OSError: no"),
        ({"position_after": OSError("no")}, r"failed in position_after\(\) of its reader: OSError: no"),
    ],
)
def test_a_reader_of_its_own_is_held_to_the_contract(wrong: dict[str, Any], said: str) -> None:
    source = Source()
    source.reader = lambda: Waiting(**wrong)  # type: ignore[method-assign]
    wm.register_connector(Connector("odd", source=lambda _: source))
    session = wm.Session()
    session.stream("s", source="odd", time="ts", lateness="1 second")
    reader = _reader(session)

    def used() -> None:
        reader.resume(1)
        reader.poll(10)
        reader.again([0, 1])
        reader.position_after([0, 1])

    with pytest.raises(wm.SourceError, match=said):
        used()


def test_what_is_no_connector_is_not_registered() -> None:
    for wrong in (object(), Connector("odd"), Connector("odd", source=7), Connector("parquet", table=lambda _: None)):  # type: ignore[arg-type]
        with pytest.raises(wm.OptionError):
            wm.register_connector(wrong)  # type: ignore[arg-type]


class Bare:
    """Has the calls, and derives from nothing."""

    schema, description = COLUMNS, "bare"

    def __init__(self, opening: object = None) -> None: ...

    def begin(self) -> Any:
        return {}

    newest = slices = read = commit = poll = again = position_after = resume = begin


def test_who_derives_from_nothing_is_refused_and_told_from_what(tmp_path: Path) -> None:
    """A class when it is registered, what a function makes when it is opened."""
    for half, base in (("source", "PartitionedSource"), ("sink", "NumberedSink")):
        with pytest.raises(wm.OptionError, match=f"the {half} of connector 'odd' is a Bare, .* from {base}") as error:
            wm.register_connector(Connector("odd", **{half: Bare}))  # type: ignore[arg-type]
        assert f"from watersmeet.io.connectors.contract import {base}" in str(error.value.hint)
    assert told(Bare()) == "the source of connector 'odd' is a Bare, which does not derive from PartitionedSource"
    session = wm.Session()
    session.stream("s", pa.Table.from_batches([ROWS]), time="ts")
    wm.register_connector(Connector("odd", sink=lambda _: Bare()))  # type: ignore[arg-type,return-value]
    with pytest.raises(wm.SinkError, match=r"the sink of connector 'odd' is a Bare, .* from NumberedSink"):
        session.run("CREATE SINK o WITH (sink = 'odd') AS SELECT k FROM s")
    source = Source()
    source.reader = Bare  # type: ignore[method-assign,assignment]
    wm.register_connector(Connector("odd", source=lambda _: source))
    session.stream("r", source="odd", time="ts", lateness="1 second")
    with pytest.raises(wm.SourceError, match=r"the reader of connector 'odd' is a Bare, .* from Reader"):
        _reader(session, "r")


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_every_word_of_the_call_says_something_of_a_source(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, object] = {}
    monkeypatch.setattr("watersmeet.runtime.declaring.declare", lambda said, *_, **__: heard.update(said.said))
    declare = getattr(wm.Session(), kind)
    words = {*signature(declare).parameters, *options_of("stream", "connectors")}
    words -= {"name", "data", "schema", "replace", "options", "policy", "hints"}
    declare("s", **dict.fromkeys(words, "x"))
    assert {word for word, value in heard.items() if value == "x"} == words


def test_words_may_be_said_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, object] = {}
    monkeypatch.setattr("watersmeet.runtime.declaring.declare", lambda said, *_, **__: heard.update(said.said))
    groups = {"time": wm.EventTime, "policy": wm.RowPolicy, "hints": wm.Hints}
    whole = {word: group(**{one.name: one.name for one in fields(group)}) for word, group in groups.items()}
    wm.Session().stream("s", **whole)  # type: ignore[arg-type]
    known = options_of("stream", "connectors")
    assert set(heard) <= known
    alone = {"source", "key", "op", "read", "rounding", "arrival_column", "history", "handover", "max_rows_per_batch"}
    assert known - set(heard) == alone
    with pytest.raises(wm.CatalogError, match="the lateness of 's' is said twice"):
        wm.Session().stream("s", time=wm.EventTime("ts", lateness="1 second"), lateness="2 seconds")


def test_words_that_are_said_twice_or_are_no_group() -> None:
    schema = {"ts": "TIMESTAMP"}
    with pytest.raises(wm.CatalogError, match="the lateness of 's' is said twice"):
        wm.Session().stream("s", schema=schema, time="ts", lateness="1 second", Lateness="2 seconds")
    with pytest.raises(wm.CatalogError, match="the policy of 's' is 'skip', not a RowPolicy"):
        wm.Session().stream("s", schema=schema, time="ts", policy="skip")  # type: ignore[arg-type]
    with pytest.raises(wm.CatalogError, match="the delimiter of 's' is said twice"):
        wm.Session().stream("s", source="csv", path="s.csv", schema=schema, time="ts", sep=";", delimiter=",")


def test_words_that_nobody_reads() -> None:
    with pytest.raises(wm.CatalogError, match="stream 's' has no option 'latness'") as error:
        wm.Session().stream("s", schema={"ts": "TIMESTAMP"}, time="ts", latness="1 second")
    assert "did you mean lateness?" in str(error.value.hint)
    wm.register_connector(Connector("odd", source=lambda _: Source()))
    with pytest.raises(wm.OptionError, match="'s' has no option 'brokers'"):
        wm.Session().stream("s", source="odd", time="ts", brokers="x")
