"""Every named algorithm under every window form, for streams of every shape: the answer is DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tests.conformance.methods import H02, NAMED
from tests.conformance.refusals import refusal
from tests.runners import Bag, Source, bound_plan, by_duckdb, by_local_engine, by_reference
from watersmeet.errors import UnsupportedError

SECOND = 1_000_000
KEYED = "a.k = b.k AND b.k = c.k"
# Windows in brackets for a, b and c, then constraints and conditions.
FORMS = {
    "equal ranges": (("RANGE 3 SECONDS",) * 3, "", KEYED),
    "unequal ranges": (("RANGE 1 SECOND", "RANGE 4 SECONDS", "RANGE 2 SECONDS"), "", KEYED),
    "half open": (("RANGE 3 SECONDS", "RANGE 2 SECONDS", "RANGE 3 SECONDS"), "", KEYED),
    "one window": (("", "", ""), "WINDOW = 2 SECONDS", KEYED),
    "pairs": (("", "", ""), "WINDOW (a, b) = 1 SECOND AND WINDOW (b, c) = 3 SECONDS", KEYED),
    "directed": (("", "", ""), "DWINDOW (a, b) = 2 SECONDS AND DWINDOW (c, b) = 3 SECONDS", KEYED),
    "path": (("", "", ""), "WINDOW PATH (a, b, c) = (2 SECONDS, 3 SECONDS)", KEYED),
    "plain SQL": (
        ("", "", ""),
        "",
        f"{KEYED} AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 3 SECONDS "
        "AND c.ts >= b.ts - INTERVAL 2 SECONDS AND c.ts < b.ts + INTERVAL 2 SECONDS",
    ),
    "rows": (("ROWS 4", "ROWS 6", "ROWS 3"), "", KEYED),
    "rows per key": (("PARTITION BY k ROWS 2", "PARTITION BY k ROWS 3", "ROWS 8"), "", KEYED),
    "rows, ranges and pairs": (
        ("ROWS 5", "RANGE 3 SECONDS", "PARTITION BY k ROWS 2"),
        "WINDOW (a, c) = 2 SECONDS",
        KEYED,
    ),
    "unbounded": (("UNBOUNDED", "RANGE 1 SECOND", "RANGE 1 SECOND"), "", KEYED),
    "now": (("NOW", "RANGE 2 SECONDS", "NOW"), "", KEYED),
    "other comparisons": (
        ("RANGE 2 SECONDS",) * 3,
        "",
        f"{KEYED} AND a.x < b.x AND c.x <> a.x AND ABS(b.x - c.x) <= 4",
    ),
}


def stream(name: str, times_us: npt.NDArray[np.int64], seed: int, *, delay_us: int = 0, keys: int = 3) -> Source:
    """Rows in time order, or delayed by up to the lateness."""
    rng = np.random.default_rng(seed)
    times = np.sort(times_us)
    if delay_us:
        times = times[np.argsort(times + rng.integers(0, delay_us, times.size), kind="stable")]
    table = {
        "id": pa.array(np.arange(times.size)),
        "k": pa.array(rng.integers(0, keys, times.size)),
        "x": pa.array(rng.integers(0, 10, times.size)),
        "ts": pa.array(times, pa.timestamp("us")),
    }
    return Source(name, pa.table(table), "ts", f"{delay_us} microseconds")


def spread_out(rows: int, seed: int, grain_us: int = 1) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(1000 + seed)
    return rng.integers(0, 20 * SECOND, rows) // grain_us * grain_us


def bursts(rows: int, seed: int) -> npt.NDArray[np.int64]:
    return spread_out(rows, seed) % SECOND + SECOND * 7 * (np.arange(rows) % 3)


@cache
def shapes() -> dict[str, tuple[Source, ...]]:
    names = "abc"
    return {
        "in order": tuple(stream(n, spread_out(40, i), i) for i, n in enumerate(names)),
        "out of order": tuple(stream(n, spread_out(40, i), i, delay_us=3 * SECOND) for i, n in enumerate(names)),
        "ties": tuple(stream(n, spread_out(30, i, SECOND), i, delay_us=i * SECOND) for i, n in enumerate(names)),
        "bursts": tuple(stream(n, bursts(36, i), i) for i, n in enumerate(names)),
        "one silent": (
            stream("a", spread_out(40, 1), 1),
            stream("b", spread_out(2, 2), 2),
            stream("c", spread_out(40, 3), 3),
        ),
        "1000 to 1": (
            stream("a", spread_out(1, 1), 1),
            stream("b", spread_out(1000, 2), 2, keys=40),
            stream("c", spread_out(30, 3), 3),
        ),
    }


# Row by row takes long, so only where it tells most.
ROWS_PER_BATCH = {name: (None, 7, 1 if name == "ties" else 16) for name in shapes()} | {"1000 to 1": (None, 500, 90)}


def query(form: str) -> str:
    brackets, constraints, conditions = FORMS[form]
    sources = ", ".join(f"{n} [{w}] AS {n}" if w else n for n, w in zip("abc", brackets, strict=True))
    return f"SELECT a.id, b.id, c.id, event_time() AS newest FROM {sources} WHERE {conditions} {constraints}"


def asked(form: str, options: str) -> str:
    boundary = ["boundary = 'half_open'"] if form == "half open" else []
    said = ", ".join([*boundary, *filter(None, [options])])
    return query(form) + (f" OPTIONS ({said})" if said else "")


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("form", FORMS)
def test_every_algorithm_gives_the_answer(form: str, shape: str) -> None:
    sources = shapes()[shape]
    expected = by_duckdb(asked(form, ""), sources)
    for i, (name, options) in enumerate(NAMED.items()):
        batches = ROWS_PER_BATCH[shape][i % 3]
        assert by_local_engine(asked(form, options), sources, batches) == expected, name


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("form", FORMS)
def test_every_algorithm_of_h02_gives_the_answer_or_says_why_it_cannot(form: str, shape: str) -> None:
    sources = shapes()[shape]
    expected = by_duckdb(asked(form, ""), sources)
    for i, (name, options) in enumerate(H02.items()):
        batches = ROWS_PER_BATCH[shape][i % 3]
        why = refusal(bound_plan(asked(form, ""), sources), options)
        assert (why is not None) == (name.startswith("merge") and ("ROWS" in query(form) or "UNBOUNDED" in query(form)))
        if why is None:
            assert by_local_engine(asked(form, options), sources, batches) == expected, name
        else:
            with pytest.raises(UnsupportedError, match=re.escape(why)):
                by_local_engine(asked(form, options), sources, batches)


def test_the_grid_has_something_to_find() -> None:
    """Every form and every shape is answered by some rows, or the test above says little."""
    found = {
        (form, shape): by_duckdb(asked(form, ""), sources) for form in FORMS for shape, sources in shapes().items()
    }
    assert all(any(found[form, shape] for shape in shapes()) for form in FORMS)
    assert all(any(found[form, shape] for form in FORMS) for shape in shapes())


CHAIN = ["a.k = b.k", "b.x = c.x", "c.k = d.k"]
WINDOWS = ["RANGE 3 SECONDS", "ROWS 6", "RANGE 2 SECONDS", "RANGE 4 SECONDS"]
OTHERS = {
    "nested loops": "join = 'nested_loop', invalidate = 'probe_all'",
    "hash": "join = 'hash', buckets = 3",
    "hybrid, passes": "join = 'hybrid', buckets = 3, expire = '5 seconds'",
    "lazy": "join = 'hybrid', refresh = '2 seconds'",
    "naive": "join = 'naive'",
}


def chain(streams: int) -> str:
    names = "abcd"[:streams]
    sources = ", ".join(f"{n} [{w}] AS {n}" for n, w in zip(names, WINDOWS, strict=False))
    ids = ", ".join(f"{n}.id" for n in names)
    return f"SELECT {ids} FROM {sources} WHERE {' AND '.join(CHAIN[: streams - 1])}"


def four_streams() -> Sequence[Source]:
    return [stream(n, spread_out(22, i, SECOND // 2), i, delay_us=SECOND * (i % 2)) for i, n in enumerate("abcd")]


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("streams", [2, 3, 4])
def test_two_to_four_streams_on_different_columns(streams: int, options: str) -> None:
    sources = four_streams()[:streams]
    expected: Bag = by_reference(chain(streams), sources)
    assert expected
    assert by_local_engine(f"{chain(streams)} OPTIONS ({options})", sources, 5) == expected


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_a_stream_joined_with_itself(options: str) -> None:
    sources = four_streams()[:1]
    sql = "SELECT a.id, b.id FROM a AS a, a AS b WHERE a.k = b.k DWINDOW (a, b) = 2 SECONDS"
    expected = by_reference(sql, sources)
    assert expected
    assert by_local_engine(f"{sql} OPTIONS ({options})", sources, 5) == expected


def test_a_full_output_is_resumed_at_any_depth() -> None:
    """More results per row than fit into one piece, for loops and buckets."""
    rows = 42
    times = np.arange(rows, dtype=np.int64) * 1000
    sources = [stream(n, times, i, keys=1) for i, n in enumerate("abc")]
    expected = by_duckdb(query("equal ranges"), sources)
    assert sum(expected.values()) == rows**3
    for name in ("nested loops", "hash", "lazy hash", "general lazy loops", "naive"):
        assert by_local_engine(asked("equal ranges", NAMED[name]), sources) == expected, name
