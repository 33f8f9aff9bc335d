"""Joins over thousands of rows: stores grow, move, shrink and turn over, output fills up in the middle of a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.at_scale import Question, Shape, check

A_B = {"a": "a", "b": "b"}
A_B_C = {**A_B, "c": "c"}
A_B_C_D = {**A_B_C, "d": "d"}
PAYLOAD = "a.n AS n_a, b.n AS n_b, a.ts AS a_ts, b.ts AS b_ts, a.x AS a_x, b.x AS b_x, a.p AS a_p, b.p AS b_p, " \
    "a.d AS a_d, b.d AS b_d, a.b AS a_b, b.b AS b_b, a.k AS a_k, b.k AS b_k"  # fmt: skip


def numbers(members: dict[str, str]) -> str:
    return ", ".join(f"{alias}.n AS n_{alias}" for alias in members)


def within(size_s: float, *aliases: str) -> str:
    """Every pair within so many seconds, in a form that DuckDB joins by."""
    size = int(size_s * 1_000_000)
    pairs = [(u, v) for i, u in enumerate(aliases) for v in aliases[i + 1 :]]
    return " AND ".join(f"{v}.t BETWEEN {u}.t - {size} AND {u}.t + {size}" for u, v in pairs)


def pair(predicate: str, size_s: float, truth: str | None = None, **shapes: Shape) -> Question:
    sql = f"SELECT {PAYLOAD} FROM a, b WHERE {predicate} WINDOW = {int(size_s * 1000)} MILLISECONDS"
    return Question(sql, f"{truth or predicate} AND {within(size_s, 'a', 'b')}", A_B, shapes)


STEADY = Shape(10_000, 500)
BURSTY = Shape(10_000, 500, bursts=4, nulls=0.05)
UNTIDY = Shape(10_000, 500, disorder_us=3_000_000, late=0.02, grain_us=200_000, nulls=0.05)

PAIRS = {
    "one key": pair("a.k = b.k", 5, a=STEADY, b=STEADY),
    "bursts and silences": pair("a.k = b.k", 20, a=BURSTY, b=replace(BURSTY, bursts=3)),
    "out of order, late rows, equal times": pair("a.k = b.k", 4, a=UNTIDY, b=UNTIDY),
    "disorder on one side": pair("a.k = b.k", 4, a=UNTIDY, b=BURSTY),
    "a thousand rows to one": pair("a.k = b.k", 60, a=Shape(30_000, 750), b=Shape(30, 750)),
    "a window as long as the streams": pair("a.k = b.k", 2000, a=Shape(5_000), b=Shape(5_000)),
    "a key of text": pair("a.s = b.s", 4, a=UNTIDY, b=BURSTY),
    "a key of decimals": pair("a.d = b.d", 4, a=BURSTY, b=UNTIDY),
    "a key of doubles": pair("a.f = b.f", 4, a=UNTIDY, b=UNTIDY),
    "a key of text and one of integers": pair("a.s = b.s AND a.j = b.j", 4, a=UNTIDY, b=BURSTY),
    "two keys": pair("a.k = b.k AND a.j = b.v % 11", 20, a=STEADY, b=UNTIDY),
    "a key and an order": pair("a.k = b.k AND a.v < b.v", 10, a=UNTIDY, b=STEADY),
    "a key and a difference": pair("a.k = b.k AND a.v <> b.v AND a.j <> b.v", 10, a=UNTIDY, b=STEADY),
    "an order alone": pair("a.v < b.v - 900", 20, a=Shape(5_000), b=Shape(5_000, disorder_us=2_000_000)),
    "a band": pair("ABS(a.v - b.v) <= 3", 20, a=STEADY, b=BURSTY),
    "a band out of order": pair("ABS(a.v - b.v) < 3", 8, a=UNTIDY, b=UNTIDY),
    "a band of doubles": pair("ABS(a.x - b.x) <= 0.25", 8, a=UNTIDY, b=BURSTY),
    "an interval": pair(
        "a.v BETWEEN b.v - 2 AND b.v + 5", 8, a=replace(UNTIDY, rows=5_000), b=replace(BURSTY, rows=5_000)
    ),
    "no predicate": pair("true", 0.3, a=Shape(10_000), b=Shape(10_000, disorder_us=1_000_000)),
    "nothing but OR": pair(
        "(a.k = b.k OR a.p = b.p)", 1, a=Shape(5_000, 100), b=Shape(5_000, 100, disorder_us=1_000_000)
    ),
    "a filter on each side": pair("a.k = b.k AND a.v > 0 AND b.p LIKE '%7%'", 20, a=UNTIDY, b=BURSTY),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_streams_join_as_in_duckdb(name: str) -> None:
    assert check(PAIRS[name], [1000, 1 << 16]) > 1000


@pytest.mark.parametrize("rows", [1, 7])
def test_batches_of_a_few_rows_give_the_same_answer(rows: int) -> None:
    size = 300 * rows
    shapes = {"a": Shape(size, 100, keys=20, bursts=4), "b": Shape(size, 100, keys=20, disorder_us=1_000_000)}
    check(pair("a.k = b.k", 20, **shapes), [rows])
    check(pair("a.k = b.k AND ABS(a.v - b.v) <= 50", 20, **shapes), [rows])
    check(pair("ABS(a.v - b.v) <= 5", 20, **shapes), [rows])


@pytest.mark.parametrize("disorder_us", [0, 2_000_000])
@pytest.mark.parametrize("predicate", ["a.k = b.k", "a.k = b.k AND a.v <> b.v", "ABS(a.k - b.k) <= 0", "true"])
def test_a_hot_key_fills_the_output_many_times_over(predicate: str, disorder_us: int) -> None:
    rows = 700 if predicate == "true" else 1_500  # where all pairs match, fewer rows fill it as often
    shape = Shape(rows, 10, keys=50, hot=0.5, disorder_us=disorder_us)
    question = pair(predicate, 20, a=shape, b=replace(shape, rows=rows * 2 // 3))
    assert (
        check(replace(question, sql=question.sql.replace(PAYLOAD, "a.n AS n_a, b.n AS n_b, b.p AS b_p")), [400])
        > 4 << 16
    )


def three(predicate: str, windows: str, meaning: str, shape: Shape, members: dict[str, str] = A_B_C) -> Question:
    sql = f"SELECT {numbers(members)}, c.p AS c_p, b.x AS b_x FROM {', '.join(members)} WHERE {predicate} {windows}"
    shapes = {name: replace(shape, rows=shape.rows - 100 * i) for i, name in enumerate(members.values())}
    return Question(sql, f"{predicate} AND {meaning}", members, shapes)


ONE_KEY = "a.k = b.k AND b.k = c.k"
CHAIN = "a.k = b.k AND b.j = c.j AND a.v < c.v"
RANGES = "b.t - a.t <= 9000000 AND c.t - a.t <= 9000000 AND a.t - b.t <= 2000000 AND c.t - b.t <= 2000000 " \
    "AND a.t - c.t <= 4000000 AND b.t - c.t <= 4000000"  # fmt: skip
PATH = "((b.t BETWEEN a.t AND a.t + 3000000 AND c.t BETWEEN b.t AND b.t + 6000000) OR " \
    "(b.t BETWEEN c.t AND c.t + 6000000 AND a.t BETWEEN b.t AND b.t + 3000000)) " \
    "AND a.t - b.t BETWEEN -3000000 AND 3000000 AND c.t - b.t BETWEEN -6000000 AND 6000000"  # fmt: skip
MIDDLING = Shape(6_000, 600, keys=40, nulls=0.03)
MESSY = replace(MIDDLING, disorder_us=2_000_000, late=0.02, grain_us=100_000)

THREE = {
    "one key, one window": three(ONE_KEY, "WINDOW = 5 SECONDS", within(5, "a", "b", "c"), MIDDLING),
    "one key, out of order": three(ONE_KEY, "WINDOW = 5 SECONDS", within(5, "a", "b", "c"), MESSY),
    "one key, bursts": three(
        ONE_KEY, "WINDOW = 2 SECONDS", within(2, "a", "b", "c"), replace(MIDDLING, bursts=6, keys=100)
    ),
    "one key, windows of pairs": three(
        ONE_KEY, "WINDOW (a, b) = 3 SECONDS AND WINDOW (b, c) = 6 SECONDS",
        f"{within(3, 'a', 'b')} AND {within(6, 'b', 'c')}", MESSY,
    ),
    "different keys": three(CHAIN, "WINDOW = 4 SECONDS", within(4, "a", "b", "c"), MESSY),
    "a key and a band": three(
        "a.k = b.k AND ABS(b.v - c.v) <= 20", "WINDOW = 4 SECONDS", within(4, "a", "b", "c"), MESSY
    ),
    "one key, a path": three(ONE_KEY, "WINDOW PATH (a, b, c) = (3 SECONDS, 6 SECONDS)", PATH, MESSY),
    "different keys, a path": three(CHAIN, "WINDOW PATH (a, b, c) = (3 SECONDS, 6 SECONDS)", PATH, MESSY),
    "directed windows": three(
        ONE_KEY, "DWINDOW (a, b) = 6 SECONDS AND DWINDOW (b, c) = 6 SECONDS",
        "b.t BETWEEN a.t AND a.t + 6000000 AND c.t BETWEEN b.t AND b.t + 6000000", MESSY,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", THREE)
def test_three_streams_join_as_in_duckdb(name: str) -> None:
    assert check(THREE[name], [700, 1 << 16]) > 500


def test_a_window_for_each_of_three_streams() -> None:
    sql = f"SELECT {numbers(A_B_C)} FROM a [RANGE 9 SECONDS], b [RANGE 2 SECONDS], c [RANGE 4 SECONDS] WHERE {ONE_KEY}"
    assert check(Question(sql, f"{ONE_KEY} AND {RANGES}", A_B_C, dict.fromkeys("abc", MESSY)), [1000]) > 500


@pytest.mark.parametrize("disorder_us", [0, 500_000])
@pytest.mark.parametrize(
    "windows", ["WINDOW = 20 SECONDS", "WINDOW (a, b) = 3 SECONDS AND WINDOW (b, c) = 1 SECOND"], ids=["one", "pairs"]
)
def test_a_hot_key_of_three_streams_grows_the_lists_and_fills_the_output(windows: str, disorder_us: int) -> None:
    """More than 256 matches per stream and row, and more results from one row than the output holds."""
    shape = Shape(700, 10, keys=3, hot=0.6, disorder_us=disorder_us)
    meaning = within(20, "a", "b", "c") if windows[7] == "=" else f"{within(3, 'a', 'b')} AND {within(1, 'b', 'c')}"
    sql = f"SELECT {numbers(A_B_C)} FROM a, b, c WHERE {ONE_KEY} {windows}"
    shapes = {"a": shape, "b": replace(shape, rows=500), "c": replace(shape, rows=20)}
    assert check(Question(sql, f"{ONE_KEY} AND {meaning}", A_B_C, shapes), [64, 1 << 16]) > 8 << 16 or windows[7] == "("


def test_four_streams_with_a_hot_key() -> None:
    same = "a.k = b.k AND b.k = c.k AND c.k = d.k"
    sql = f"SELECT {numbers(A_B_C_D)} FROM a, b, c, d WHERE {same} WINDOW = 20 SECONDS"
    shape = Shape(400, 10, keys=3, hot=0.5)
    shapes = {"a": shape, "b": replace(shape, rows=30), "c": replace(shape, rows=9), "d": replace(shape, rows=9)}
    assert check(Question(sql, f"{same} AND {within(20, *'abcd')}", A_B_C_D, shapes), [50]) > 1 << 16


def test_four_streams_with_different_keys() -> None:
    where = "a.k = b.k AND b.j = c.j AND c.s = d.s"
    sql = f"SELECT {numbers(A_B_C_D)}, d.p AS d_p FROM a, b, c, d WHERE {where} WINDOW = 3 SECONDS"
    shape = Shape(3_000, 600, keys=40, disorder_us=1_000_000, nulls=0.02, late=0.01)
    question = Question(sql, f"{where} AND {within(3, *'abcd')}", A_B_C_D, dict.fromkeys("abcd", shape))
    assert check(question, [500, 1 << 16]) > 100


def test_four_streams_on_a_path() -> None:
    same = "a.k = b.k AND b.k = c.k AND c.k = d.k"
    forward = (
        "b.t BETWEEN a.t AND a.t + 2000000 AND c.t BETWEEN b.t AND b.t + 3000000 AND d.t BETWEEN c.t AND c.t + 9000000"
    )
    backward = (
        "a.t BETWEEN b.t AND b.t + 2000000 AND b.t BETWEEN c.t AND c.t + 3000000 AND c.t BETWEEN d.t AND d.t + 9000000"
    )
    windows = "WINDOW PATH (a, b, c, d) = (2 SECONDS, 3 SECONDS, 9 SECONDS)"
    sql = f"SELECT {numbers(A_B_C_D)} FROM a, b, c, d WHERE {same} {windows}"
    shape = Shape(1_000, 100, keys=20, disorder_us=1_000_000, grain_us=500_000)
    either = f"{within(2, 'a', 'b')} AND {within(3, 'b', 'c')} AND {within(9, 'c', 'd')} AND {within(14, 'a', 'd')}"
    truth = f"{same} AND {either} AND (({forward}) OR ({backward}))"
    question = Question(sql, truth, A_B_C_D, dict.fromkeys("abcd", shape))
    assert check(question, [500, 1 << 16]) > 100


@pytest.mark.parametrize("shape", [STEADY, UNTIDY], ids=["in order", "untidy"])
def test_a_stream_joins_itself(shape: Shape) -> None:
    members = {"x": "a", "y": "a"}
    sql = f"SELECT {numbers(members)}, y.p AS y_p FROM a AS x, a AS y WHERE x.k = y.k DWINDOW (x, y) = 4 SECONDS"
    truth = "x.k = y.k AND y.t BETWEEN x.t AND x.t + 4000000"
    assert check(Question(sql, truth, members, {"a": shape}), [1000, 1 << 16]) > len(A_B) * 1000


def test_a_stream_joins_itself_under_three_names() -> None:
    members = {"x": "a", "y": "a", "z": "a"}
    sql = f"SELECT {numbers(members)} FROM a x, a y, a z WHERE x.k = y.k AND y.k = z.k WINDOW = 2 SECONDS"
    truth = f"x.k = y.k AND y.k = z.k AND {within(2, *'xyz')}"
    assert check(Question(sql, truth, members, {"a": replace(UNTIDY, rows=8_000)}), [1000, 1 << 16]) > 8_000


def test_static_tables_join_like_any_input() -> None:
    members = {"a": "a", "m": "m", "b": "b"}
    sql = (
        f"SELECT {numbers(members)}, m.p AS m_p, m.x AS m_x FROM a, m, b "
        "WHERE a.k = m.k AND m.j = b.j AND a.s = b.s WINDOW (a, b) = 5 SECONDS"
    )
    truth = f"a.k = m.k AND m.j = b.j AND a.s = b.s AND {within(5, 'a', 'b')}"
    shapes = {"a": replace(UNTIDY, rows=6_000), "b": replace(BURSTY, rows=6_000)}
    assert check(Question(sql, truth, members, shapes, {"m": Shape(3_000, nulls=0.1)}), [1000, 1 << 16]) > 1000


def test_a_hot_static_table_fills_the_output() -> None:
    members = {"a": "a", "m": "m"}
    sql = f"SELECT {numbers(members)}, m.p AS m_p FROM a, m WHERE a.k = m.k"
    question = Question(sql, "a.k = m.k", members, {"a": Shape(2_000, hot=0.3)}, {"m": Shape(3_000, hot=0.3)})
    assert check(question, [300, 1 << 16]) > 4 << 16


def test_an_unbounded_stream_keeps_every_row() -> None:
    sql = f"SELECT {numbers(A_B)} FROM a [UNBOUNDED], b [RANGE 1 SECOND] WHERE a.k = b.k"
    shapes = {"a": Shape(5_000, keys=2_000, disorder_us=1_000_000), "b": Shape(5_000, keys=2_000)}
    assert check(Question(sql, "a.k = b.k AND a.t - b.t <= 1000000", A_B, shapes), [300]) > 1000


COUNTED = Shape(5_000, keys=50, grain_us=100_000, nulls=0.05)
COUNTED_MESSY = replace(COUNTED, disorder_us=2_000_000, late=0.02)
COUNTED_BURSTS = replace(COUNTED_MESSY, bursts=5)


def counted(
    a: str, b: str, predicate: str, truth: str, last_rows: dict[str, tuple[int, str | None]], *shapes: Shape
) -> Question:
    sql = f"SELECT {PAYLOAD} FROM a {a}, b {b} WHERE {predicate}"
    return Question(sql, f"{predicate} AND {truth}", A_B, dict(zip("ab", shapes, strict=True)), None, last_rows)


COUNTS = {
    "both count rows": counted(
        "[ROWS 300]", "[ROWS 2000]", "a.k = b.k", "true", {"a": (300, None), "b": (2000, None)}, COUNTED, COUNTED
    ),
    "out of order": counted(
        "[ROWS 300]", "[ROWS 40]", "a.k = b.k", "true", {"a": (300, None), "b": (40, None)},
        COUNTED_MESSY, COUNTED_MESSY,
    ),
    "rows and time": counted(
        "[ROWS 300]", "[RANGE 20 SECONDS]", "a.k = b.k", "a.t - b.t <= 20000000", {"a": (300, None)},
        COUNTED_MESSY, COUNTED_BURSTS,
    ),
    "rows of each value, squeezed out from between others": counted(
        "[PARTITION BY k ROWS 5]", "[PARTITION BY j ROWS 30]", "a.k = b.k", "true", {"a": (5, "k"), "b": (30, "j")},
        COUNTED_MESSY, COUNTED_BURSTS,
    ),
    "rows of each text, hot values": counted(
        "[PARTITION BY p ROWS 1]", "[ROWS 50]", "a.k = b.k AND a.v < b.v", "true", {"a": (1, "p"), "b": (50, None)},
        replace(COUNTED, hot=0.5), COUNTED_MESSY,
    ),
    "rows of each double, with NULL": counted(
        "[PARTITION BY f ROWS 20]", "[ROWS 100]", "a.j = b.j AND a.v > 400", "true", {"a": (20, "f"), "b": (100, None)},
        COUNTED_BURSTS, COUNTED,
    ),
    "a band": counted(
        "[PARTITION BY k ROWS 10]", "[ROWS 60]", "ABS(a.v - b.v) <= 5", "true", {"a": (10, "k"), "b": (60, None)},
        COUNTED_MESSY, COUNTED_BURSTS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_windows_that_count_rows_hold_the_last_ones(name: str) -> None:
    assert check(COUNTS[name], [300, 1 << 16]) > 1000


def test_a_hot_key_in_windows_that_count_rows_fills_the_output() -> None:
    hot = Shape(1_000, hot=0.7, disorder_us=1_000_000)
    windows: dict[str, tuple[int, str | None]] = {"a": (900, None), "b": (500, "k")}
    question = counted("[ROWS 900]", "[PARTITION BY k ROWS 500]", "a.k = b.k", "true", windows, hot, hot)
    assert check(question, [50, 1 << 16]) > 2 << 16


@pytest.mark.soak
@pytest.mark.parametrize("name", PAIRS)
def test_two_longer_streams_join_as_in_duckdb(name: str) -> None:
    question = PAIRS[name]
    longer = {
        n: replace(s, rows=3 * s.rows, span_s=3 * s.span_s, bursts=4 * s.bursts) for n, s in question.shapes.items()
    }
    for rows in (17, 333, 4096, 1 << 16):
        check(replace(question, shapes=longer), [rows])


@pytest.mark.soak
@pytest.mark.parametrize("name", [*THREE, *COUNTS])
def test_batches_of_many_sizes_give_the_same_answer(name: str) -> None:
    check({**THREE, **COUNTS}[name], [1, 17, 333, 4096])
