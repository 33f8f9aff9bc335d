"""The options that streams and tables have whoever brings their rows: one table, by which SQL and Python are read, what
does not belong is refused, and the documentation is tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.hints import parse_distinct, parse_rate, parse_unique
from watersmeet.model.side_sink import parse_policy
from watersmeet.model.time import UNIT_ORDER, interval_us
from watersmeet.model.time_format import time_format
from watersmeet.model.versions import parse_key
from watersmeet.model.zones import check_zone

Of = Literal["stream", "table"]
ReadBy = Literal["files", "connectors"]
Parse = Callable[[Any], Any]

BOTH: tuple[Of, ...] = ("stream", "table")
ANYONE: tuple[ReadBy, ...] = ("files", "connectors")
_NEVER_LATE = "no row is late by its own arrival"
_NOT_BROUGHT = "no column of the rows is looked at"


@dataclass(frozen=True)
class StreamOption:
    """A line of the table.

    parse: makes a value of the text of SQL, or of what Python gives; raises ValueError with a sentence that says what
    would do. words: its line in docs/language.md, "" for what is told elsewhere. of: streams, static tables. read_by:
    files, which are also those of Spark's own reader, and connectors. by_arrival: why it means nothing where the event
    time is the moment of arrival. not_on_spark: what is refused there, and what would do.
    """

    name: str
    parse: Parse
    words: str = ""
    of: tuple[Of, ...] = ("stream",)
    read_by: tuple[ReadBy, ...] = ANYONE
    by_arrival: str | None = None
    not_on_spark: tuple[str, str] | None = None


def _positive_us(given: str | timedelta) -> int:
    us = interval_us(given)
    if us <= 0:
        raise ValueError(f"{given!r} is no length of time; write for example '30 seconds'")
    return us


def _reload(given: str | timedelta) -> int:
    """How long after a load of a table the next begins, in microseconds."""
    us = _positive_us(given)
    if us < 1_000_000:
        raise ValueError(f"{given!r} is too often; write '1 second' or more")
    return us


def _not_negative_us(given: str | timedelta) -> int:
    us = interval_us(given)
    if us < 0:
        raise ValueError(f"{given!r} is negative; write '0 seconds' or more")
    return us


def _one_of(*words: str) -> Parse:
    def parse(given: Any) -> str:
        word = str(given).lower()
        if word not in words:
            raise ValueError(f"{given!r} is not one of {', '.join(map(repr, words))}")
        return word

    return parse


def _policy(*words: str) -> Parse:
    return lambda given: parse_policy(words, given)


_UNITS = {"sec": "s", "second": "s", "milli": "ms", "millisecond": "ms", "µs": "us", "micro": "us"}
_UNITS |= {"microsecond": "us", "nano": "ns", "nanosecond": "ns"}


def _unit(given: str) -> str:
    word = str(given).strip().lower()
    word = _UNITS.get(word.rstrip("s") if len(word) > 2 else word, word)
    if word not in UNIT_ORDER:
        raise ValueError(f"{given!r} is not one of {', '.join(map(repr, UNIT_ORDER))}")
    return word


def _format(given: str) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is no format; write for example '%Y-%m-%d %H:%M:%S'")
    return time_format(given).written


def _column(example: str) -> Parse:
    def parse(given: Any) -> str:
        if not isinstance(given, str) or not given.strip():
            raise ValueError(f"{given!r} is no name of a column; write for example '{example}'")
        return given

    return parse


def _zone(given: str) -> str:
    try:
        return check_zone(str(given))
    except OptionError as error:
        said = error.message.removeprefix("timezone: ")
        raise ValueError(f"{said}; {error.hint}") from None


_TABLE = (
    StreamOption(
        "source", str,
        "`parquet`, `csv`, `tsv`, `json` (one object a line), `jsonl`, `ndjson`; without it, by the file's name; or "
        "generated rows, `lab:nexmark` and [others](lab.md#streams-to-use); or a [connector](connectors.md), `kafka` "
        "and others, which has options of its own",
        of=BOTH,
    ),
    StreamOption(
        "path", str,
        "a file, a folder or a pattern; of a folder the files in it, not those of its subfolders, which "
        "`'folder/**/*.parquet'` names. Their names (`month=01`) make no column",
        of=BOTH, read_by=("files",),
    ),
    StreamOption(
        "time", _column("ts"),
        "the column that is the event time; required. A timestamp, or what the next three say; in queries it is a "
        "`TIMESTAMP`. Or `arrival`, the moment at which rows come ([more](#processing-time-the-moment-of-arrival))",
    ),
    StreamOption(
        "time_unit", _unit,
        "it is a number since 1970: `s`, `ms`, `us` or `ns` ([more](#times-as-they-come))",
        by_arrival=_NOT_BROUGHT,
    ),
    StreamOption(
        "time_format", _format,
        "it is text: `'%d.%m.%Y %H:%M:%S'`, or `'iso'` for any form of ISO 8601 ([more](#times-as-they-come))",
        by_arrival=_NOT_BROUGHT,
    ),
    StreamOption(
        "time_zone", _zone,
        "the zone of such text without an offset, `'Europe/Paris'`; UTC unless said",
        by_arrival=_NOT_BROUGHT,
    ),
    StreamOption(
        "arrival_column", _column("arrived"),
        "with `time = 'arrival'`: how the moment is called in queries, `arrival` unless said",
    ),
    StreamOption(
        "on_null", _one_of("error", "skip"),
        "`error` (the default) ends the run at a row without an event time, `skip` leaves such rows out, counts and "
        "tells them",
        by_arrival="every row has arrived at some moment",
    ),
    StreamOption(
        "lateness", _not_negative_us,
        "how far out of order rows may arrive, `0 seconds` unless said",
        by_arrival=_NEVER_LATE,
    ),
    StreamOption(
        "read", _one_of("time", "arrival"),
        "in-process: `time` (the default) reads files in the order of their event times, `arrival` as they stand, "
        "files by their names",
    ),
    StreamOption(
        "on_late", _policy("count", "error"),
        "`count` (the default) leaves late rows out and tells how many, `error` ends the run at the first, `sink NAME` "
        "keeps them [in a sink](bad_records.md)",
        by_arrival=_NEVER_LATE,
    ),
    StreamOption(
        "on_bad", _policy("error", "skip"),
        "`error` (the default) ends the run at the first [record that cannot be read](bad_records.md), `skip` leaves "
        "such records out and tells how many, `sink NAME` keeps them in a sink",
    ),
    StreamOption(
        "idle", _positive_us,
        "after so much silence the stream no longer holds the watermark back, `30 seconds`. "
        "[On Spark](spark.md#late-rows-and-idle-streams) as well, batch by batch",
        by_arrival="time goes on with the clock on the wall, rows or not",
    ),
    StreamOption(
        "max_future", _not_negative_us,
        "a row further ahead of the wall clock is kept but moves no watermark, `1 hour`",
        by_arrival="no row arrives in the future",
    ),
    StreamOption(
        "max_drift", _positive_us,
        "while streams catch up in a run that goes on, this one is not read further ahead of the one furthest behind, "
        "`10 minutes` ([more](connectors.md#watermark-alignment-in-event-time-step))",
        by_arrival="rows that arrive now are not ahead of others",
        not_on_spark=(
            "which is for streams that are read in-process",
            "leave it out: Spark reads what its limits allow of every stream",
        ),
    ),
    StreamOption(
        "history", str,
        "what a stream of a connector begins with, with options of its own as `history_…` "
        "([more](connectors.md#backfill-history-then-live))",
        read_by=("connectors",),
    ),
    StreamOption(
        "handover", str,
        "where such a stream [hands over to live](connectors.md#backfill-history-then-live)",
        read_by=("connectors",),
    ),
    StreamOption(
        "key", parse_key,
        "the columns of which each value has one row at a time, `'k'` or `'k, s'`: the rows are changes of a "
        "[table with versions](#temporal-joins-versions-of-a-table), which says what streams say",
        of=BOTH,
    ),
    StreamOption(
        "op", _column("op"),
        "the column that tells which of them delete; without it each is a new version",
    ),
    StreamOption(
        "rounding", _one_of("error", "down"),
        "`'down'` cuts off what is finer than a microsecond; without it that is an error",
        of=BOTH,
    ),
    StreamOption(
        "reload", _reload,
        "how long after a load of the table it is loaded again, `5 minutes`; tables of "
        "[a database](databases.md#reloading-a-table) or of files",
        of=("table",),
        not_on_spark=(
            "but on Spark a table is loaded once, when its query is planned",
            "leave reload out and start the query again when the table has changed, or run it in-process "
            "(--engine local)",
        ),
    ),
    StreamOption("rate", parse_rate, "rows a second, `'100/s'` or `'30 per minute'`: a hint for the join order"),
    StreamOption(
        "distinct", parse_distinct,
        "how many values columns have, `'k: 5000, city: 40'`: a hint for the join order",
        of=BOTH,
    ),
    StreamOption(
        "unique", parse_unique,
        "columns of which each value comes once in a window, as ids do, `'id'` or `'id, code'`: a hint for the join "
        "order, [more](optimizer.md#keys)",
        of=BOTH,
    ),
    # How Spark reads them, which changes no answer, so other hosts pass over it (docs/spark.md).
    StreamOption("packed", str, of=BOTH, read_by=("files",)),
    StreamOption("max_rows_per_batch", str, read_by=("connectors",)),
)  # fmt: skip

STREAM_OPTIONS: Mapping[str, StreamOption] = {one.name: one for one in _TABLE}


def options_of(kind: Of, read_by: ReadBy) -> frozenset[str]:
    """The names of what such a stream or table may say."""
    return frozenset(one.name for one in _TABLE if kind in one.of and read_by in one.read_by)


def meaningless_by_arrival(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first option that does not go with the moment of arrival, and why."""
    moment = "time = 'arrival' is the moment at which rows come"
    wrong = next((one for one in _TABLE if one.by_arrival is not None and one.name in values), None)
    if wrong is not None:
        return wrong.name, f"{moment}, so {wrong.name} means nothing: {wrong.by_arrival}"
    if values.get("read") == "time":
        return "read", f"{moment}, so they cannot be read in another order"
    return None


def documented() -> list[str]:
    """The lines of the table in docs/language.md."""
    return [f"| `{one.name}` | {one.words}{_where(one)} |" for one in _TABLE if one.words]


def _where(option: StreamOption) -> str:
    where = "" if option.of != ("stream",) else "; streams only"
    return where if option.not_on_spark is None else f"{where}, in-process"
