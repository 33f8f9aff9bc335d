"""Columns of any Arrow type, numbers of several types near the ends of what doubles hold, and text that is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.types.clauses import NESTED, PLAIN
from tests.types.kinds import KINDS, Kind, stream

some = random_cases(25)
PLACES = st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=8)


def ranked(kind: Kind, a: Sequence[int | None], b: Sequence[int | None], clause: str, *, rows: bool) -> Counter[str]:
    """The answer with values by their ranks: over the values themselves, or over `rows` of ranks in their place."""
    session = wm.Session()
    session.stream("a", stream(kind, a), time="ts")
    session.stream("b", stream(kind, b), time="ts")
    session.table("t", stream(kind, b))
    names = {"v": "r", "w": "q"} if rows else {"v": "v", "w": "w"}
    found = session.sql((NESTED | PLAIN)[clause].format(**names)).to_arrow().to_pylist()
    held = [name for name in (found[0] if found else ()) if name.startswith("out")]
    for row in found if not rows else ():
        row.update({name: kind.rank(row[name]) for name in held if row[name] is not None})
    return Counter(map(repr, found))


@some
@given(st.sampled_from(sorted(KINDS)), PLACES, PLACES, st.data())
def test_a_column_of_any_type_gives_what_its_ranks_give(
    name: str, a: list[int | None], b: list[int | None], data: st.DataObject
) -> None:
    kind = KINDS[name]
    clauses = NESTED if kind.is_nested else NESTED | PLAIN
    clause = data.draw(st.sampled_from([one for one in clauses if one != "versions"]))
    assert ranked(kind, a, b, clause, rows=False) == ranked(kind, a, b, clause, rows=True)


# ---- numbers --------------------------------------------------------------------------------------------------------

NEAR = st.builds(lambda base, by, sign: sign * (base + by), st.sampled_from([0, 2**24, 2**53, 2**62, 2**63]),
                 st.integers(-1030, 1030) | st.integers(-3, 3), st.sampled_from([1, -1]))  # fmt: skip
NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "BIGINT": (pa.int64(), NEAR.filter(lambda n: -(2**63) <= n < 2**63)),
    "UBIGINT": (pa.uint64(), NEAR.map(abs) | st.integers(2**64 - 3000, 2**64 - 1)),
    "DOUBLE": (pa.float64(), NEAR.map(float) | st.sampled_from([0.5, -0.0, float("inf"), float("nan"), 2.0**64])),
    "FLOAT": (pa.float32(), NEAR.map(lambda n: pa.scalar(float(n), pa.float32()).as_py())),
    "DECIMAL(38, 2)": (pa.decimal128(38, 2), NEAR.map(lambda n: Decimal(n) + Decimal("0.25"))),
    "DECIMAL(18, 0)": (pa.decimal128(18, 0), NEAR.map(lambda n: Decimal(n % 10**18))),
}
CONDITIONS = ["a.v = b.v", "a.v < b.v", "a.v >= b.v", "a.v <> b.v", "a.v IS DISTINCT FROM b.v"]
BANDS = [
    "ABS(a.v - b.v) <= 2", "a.v BETWEEN b.v - 1 AND b.v + 1.5", "a.v - b.v >= -2 AND a.v - b.v < 3",
]  # fmt: skip


@st.composite
def numbers(draw: st.DrawFn, name: str) -> pa.Table:
    kind, values = NUMBERS[name]
    found = draw(st.lists(st.none() | values, min_size=1, max_size=6))
    times = pa.array(range(len(found)), pa.timestamp("us"))
    return pa.table({"id": pa.array(range(len(found)), pa.int64()), "ts": times, "v": pa.array(found, kind)})


@random_cases(40)
@given(st.sampled_from(sorted(NUMBERS)), st.sampled_from(sorted(NUMBERS)), st.data())
def test_numbers_of_two_types_are_compared_alike_everywhere(left: str, right: str, data: st.DataObject) -> None:
    """By the kernels of a join, row by row, in sets, and by DuckDB: integers with floating numbers as doubles."""
    floating = {"DOUBLE", "FLOAT"} & {left, right}
    condition = data.draw(st.sampled_from(CONDITIONS + (BANDS if floating else [])))
    session = wm.Session()
    session.stream("a", data.draw(numbers(left)), time="ts")
    session.stream("b", data.draw(numbers(right)), time="ts")
    joined = session.sql(f"SELECT a.id, b.id AS other FROM a, b WHERE {condition} WINDOW = 1 HOUR")
    assert wm.check(joined).equal
    # The same as a condition that no index can look up.
    tested = session.sql(f"SELECT a.id, b.id AS other FROM a, b WHERE COALESCE({condition}, FALSE) WINDOW = 1 HOUR")
    assert sorted(map(str, tested.to_arrow().to_pylist())) == sorted(map(str, joined.to_arrow().to_pylist()))


# ---- text -----------------------------------------------------------------------------------------------------------

BYTES = st.none() | st.text(max_size=4).map(str.encode) | st.binary(max_size=4)


def is_text(raw: bytes | None) -> bool:
    try:
        (raw or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def as_text(raw: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Bytes that claim to be text."""
    held = pa.array(raw, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(held), held.buffers())


@some
@given(st.lists(BYTES, min_size=1, max_size=6), st.sampled_from([pa.string(), pa.large_string()]), st.booleans())
def test_text_that_is_not_utf_8_is_refused_or_left_out(
    raw: list[bytes | None], kind: pa.DataType, pushed: bool
) -> None:
    table = pa.table({"ts": pa.array(range(len(raw)), pa.timestamp("us")), "s": as_text(raw, kind)})
    sound = [one for one in raw if is_text(one)]
    for on_bad in ("error", "skip"):
        session = wm.Session()
        given_as = {"schema": table.schema} if pushed else {"data": table}
        session.stream("a", **given_as, time="ts", on_bad=on_bad)
        query = session.sql("SELECT s FROM a")
        if on_bad == "error" and len(sound) < len(raw):
            with pytest.raises(wm.errors.DataError, match="column 's' holds text that is not UTF-8"):
                taken(query, table if pushed else None)
        else:
            found = taken(query, table if pushed else None)
            assert found["s"].to_pylist() == [None if one is None else one.decode() for one in sound]


def taken(query: wm.Query, pushed: pa.Table | None) -> pa.Table:
    if pushed is None:
        return query.to_arrow()
    with query.start() as run:
        run.push("a", pushed)
        run.finish()
        return run.take()
