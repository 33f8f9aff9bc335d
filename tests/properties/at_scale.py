"""Streams large enough that stores grow, shrink and move, and their joins worked out by DuckDB.

Every row carries its arrival number `n`, and every query selects those of its members. So an answer is a bag of
number tuples, compared exactly, and each payload column it selects must be the one of the row that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import watersmeet
from tests.runners import Answered, Source, answered, behind_their_stream, without

SECOND = 1_000_000
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """How a stream behaves; the same shape and seed always give the same rows.

    `keys` distinct keys, of which `hot` of all rows share the first. `bursts` > 0 squeezes the rows into that many
    bursts with silence between. `grain_us` rounds times, so that many are equal. `disorder_us` is how far rows
    arrive out of order; `late` is the share of rows delayed beyond the lateness.
    """

    rows: int
    span_s: float = 1000.0
    keys: int = 100
    hot: float = 0.0
    bursts: int = 0
    grain_us: int = 1
    disorder_us: int = 0
    late: float = 0.0
    nulls: float = 0.0

    @property
    def lateness(self) -> str:
        return f"{self.disorder_us} microseconds"


def make(shape: Shape, seed: int) -> pa.Table:
    """The rows in arrival order: n, ts, a key in several types, and payload of several layouts."""
    rng = np.random.default_rng(seed)
    times = np.sort(_times(shape, rng))
    order = np.argsort(times + rng.integers(0, shape.disorder_us + 1, shape.rows), kind="stable")
    if shape.late:
        order = order[np.argsort(np.arange(shape.rows) + _delays(shape, rng), kind="stable")]
    times = times[order]
    key = rng.integers(0, shape.keys, shape.rows)
    key[rng.random(shape.rows) < shape.hot] = 0
    missing = rng.random(shape.rows) < shape.nulls
    words = np.array([f"word {i}" * (1 + i % 5) for i in range(997)])
    fine = rng.normal(0, 100, shape.rows).round(3)
    fine[rng.random(shape.rows) < 0.01] = np.nan
    fine[rng.random(shape.rows) < 0.01] = -0.0
    return pa.table(
        {
            "n": np.arange(shape.rows),
            "ts": pa.array(times, pa.timestamp("us")),
            "k": pa.array(key.astype(np.int32), mask=missing),
            "j": pa.array((key * 7 + 3) % 11, pa.int64()),
            "v": rng.integers(-500, 500, shape.rows),
            "x": pa.array(fine, mask=np.roll(missing, 1)),
            "s": pa.array([f"key {i}" for i in key], mask=missing),
            "d": pa.array(key * 100 + 25, pa.int64(), mask=missing)
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2)),
            "f": pa.array(np.where(key % 2, key + 0.5, -0.0 * key), mask=missing),
            "p": pa.array(words[rng.integers(0, words.size, shape.rows)], mask=np.roll(missing, 2)),
            "b": pa.array(key % 3 == 0, mask=np.roll(missing, 3)),
        }
    )


def _times(shape: Shape, rng: np.random.Generator) -> Numbers:
    span = int(shape.span_s * SECOND)
    if shape.bursts:
        burst = rng.integers(0, shape.bursts, shape.rows)
        times = burst * (span // shape.bursts) + rng.integers(0, span // shape.bursts // 20, shape.rows)
    else:
        times = rng.integers(0, span, shape.rows)
    made: Numbers = times // shape.grain_us * shape.grain_us - span // 3  # some lie before 1970
    return made


def _delays(shape: Shape, rng: np.random.Generator) -> Numbers:
    delayed = rng.random(shape.rows) < shape.late
    made: Numbers = np.where(delayed, rng.integers(0, max(2, shape.rows // 10), shape.rows), 0)
    return made


@dataclass(frozen=True)
class Question:
    """A query, what it means in plain SQL over streams with their times as BIGINT `t`, and its streams.

    `truth` follows `SELECT a.n, b.n … FROM …, WHERE`; aliases are those of `members`, name by alias. `last_rows`
    gives the ROWS windows: how many rows, and the column they are counted by, if any.
    """

    sql: str
    truth: str
    members: Mapping[str, str]
    shapes: Mapping[str, Shape]
    tables: Mapping[str, Shape] | None = None
    last_rows: Mapping[str, tuple[int, str | None]] | None = None

    def data(self) -> dict[str, pa.Table]:
        everything = {**self.shapes, **(self.tables or {})}
        return {name: make(shape, seed) for seed, (name, shape) in enumerate(everything.items())}


def engine_answer(question: Question, data: Mapping[str, pa.Table], batch_rows: int) -> Answered:
    session = watersmeet.Session()
    for name, shape in question.shapes.items():
        session.stream(name, data[name], time="ts", lateness=shape.lateness, read="arrival")
    for name in question.tables or {}:
        session.table(name, data[name])
    return answered(session.sql(question.sql), batch_rows=batch_rows)


def true_numbers(question: Question, data: Mapping[str, pa.Table], late: Mapping[str, Numbers]) -> Numbers:
    """The number tuples of the answer over the rows that were in time, sorted."""
    connection = _connection()
    for name, table in data.items():
        live = without(table, late.get(name))
        connection.register(name, live.append_column("t", live["ts"].cast(pa.int64())))
    selected = ", ".join(f"{alias}.n AS n_{alias}" for alias in question.members)
    sources = ", ".join(f"{name} AS {alias}" for alias, name in question.members.items())
    text = f"SELECT {selected} FROM {sources} WHERE {question.truth}"
    numbers = sorted_numbers(connection.sql(text).to_arrow_table().columns)
    return _where_among_last(question, data, late, numbers) if question.last_rows else numbers


def _where_among_last(
    question: Question, data: Mapping[str, pa.Table], late: Mapping[str, Numbers], numbers: Numbers
) -> Numbers:
    """Keep the combinations whose members are among the last rows of their windows at the newest member's time."""
    number_of = dict(zip(question.members, numbers, strict=True))
    times_of = {a: data[name]["ts"].cast(pa.int64()).to_numpy() for a, name in question.members.items()}
    streams = [alias for alias, name in question.members.items() if name in question.shapes]
    newest = np.max([times_of[alias][number_of[alias]] for alias in streams], axis=0)
    kept = np.ones(newest.size, np.bool_)
    for alias, (count, column) in (question.last_rows or {}).items():
        name = question.members[alias]
        live = np.delete(np.arange(len(data[name])), late.get(name, []))
        kept &= _newer_rows(data[name], live, column, number_of[alias], newest) < count
    return numbers[:, kept]


def _newer_rows(table: pa.Table, live: Numbers, column: str | None, numbers: Numbers, until: Numbers) -> Numbers:
    """How many live rows with the same value lie after each numbered row, but not after the given times."""
    times = table["ts"].cast(pa.int64()).to_numpy()
    first = int(times.min())
    group = np.zeros(len(table), np.int64) if column is None else _group_numbers(table[column])
    width = int(max(times.max(), until.max(initial=first))) - first + 1
    places = np.sort(group[live] * width + times[live] - first)  # by group, then time
    ranked = live[np.lexsort((live, times[live], group[live]))]
    rank = np.full(len(table), -1)
    rank[ranked] = np.arange(ranked.size)
    return np.searchsorted(places, group[numbers] * width + until - first, side="right") - 1 - rank[numbers]


def _group_numbers(column: pa.ChunkedArray) -> Numbers:
    values = {value: i for i, value in enumerate(dict.fromkeys(column.to_pylist()))}
    return np.array([values[value] for value in column.to_pylist()], np.int64)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
    return connection


def sorted_numbers(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    numbers = np.stack([column.to_numpy() for column in columns]).astype(np.int64)
    bits = max(1, int(numbers.max(initial=0)).bit_length())
    assert bits * len(numbers) < 64, "so many numbers do not fit into one, by which they are sorted at once"
    shifts = bits * np.arange(len(numbers))[::-1, np.newaxis]
    packed = np.sort((numbers << shifts).sum(axis=0))
    unpacked: Numbers = packed >> shifts & ((1 << bits) - 1)
    return unpacked


def check(question: Question, batch_rows: Sequence[int]) -> int:
    """The engine's answer is DuckDB's for each size of batches; returns how many combinations that is."""
    data = question.data()
    truths: dict[str, Numbers] = {}  # by the rows that were late
    for rows in batch_rows:
        given = engine_answer(question, data, rows)
        answer, metrics = given.table, given.metrics
        late = repr({name: numbers.tolist() for name, numbers in sorted(given.late.items()) if numbers.size})
        if late not in truths:
            truths[late] = true_numbers(question, data, given.late)
        expected = truths[late]
        found = sorted_numbers([answer[f"n_{alias}"] for alias in question.members])
        assert found.shape == expected.shape, f"{found.shape[1]} combinations, not {expected.shape[1]}, {rows=}"
        assert np.array_equal(found, expected), f"other combinations, {rows=}"
        assert metrics["results"] == expected.shape[1]
        assert metrics["late_rows"] == sum(numbers.size for numbers in given.late.values())
        for name, numbers in given.late.items():
            behind = behind_their_stream(Source(name, data[name], "ts", question.shapes[name].lateness))
            assert np.isin(numbers, behind).all(), "a row is late that its own stream would have kept"
        _check_payload(question, data, answer)
    return int(expected.shape[1])


def _check_payload(question: Question, data: Mapping[str, pa.Table], answer: pa.Table) -> None:
    """Every column named alias_column holds what the member of that alias has there."""
    for name in answer.column_names:
        alias, _, column = name.partition("_")
        if alias in question.members:
            original = data[question.members[alias]][column].take(answer[f"n_{alias}"])
            assert same_values(answer[name], original), f"{name} is not the member's own"


def same_values(found: pa.ChunkedArray, wanted: pa.ChunkedArray) -> bool:
    """Equality that takes NaN for equal to itself."""
    if pa.types.is_floating(found.type):
        return _float_bits(found).equals(_float_bits(wanted))
    return bool(found.combine_chunks().equals(wanted.combine_chunks()))


def _float_bits(column: pa.ChunkedArray) -> pa.Array:
    flat = column.combine_chunks().cast(pa.float64())
    bits = np.nan_to_num(flat.to_numpy(zero_copy_only=False), nan=1e300).view(np.int64)
    return pa.array(bits, mask=flat.is_null().to_numpy(zero_copy_only=False))
