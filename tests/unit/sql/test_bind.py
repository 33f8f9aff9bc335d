"""Syntax to plan: names, types, windows and the shapes of the nodes."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.plain_sql import said_by_duckdb
from tests.plans import golden_catalog
from watersmeet.errors import BindError
from watersmeet.model.windows import RowsWindow
from watersmeet.plan.expressions import Call, Column, EventTime, Literal, to_text
from watersmeet.plan.nodes import Changes, Derived, Distinct, GroupBy, Join, Over, Project, SetOperation, TopK
from watersmeet.plan.query import Plan
from watersmeet.sql import bind, bind_query, parse_script
from watersmeet.sql.syntax import CreateSink

CATALOG = golden_catalog()


def plan(text: str) -> Plan:
    return bind(text, CATALOG)


def join(text: str) -> Join:
    root = plan(text).root
    assert isinstance(root, Project)
    assert isinstance(root.child, Join)
    return root.child


def columns(text: str) -> dict[str, str]:
    root = plan(text).root
    assert isinstance(root, Project)
    return {name: to_text(expression) for name, expression in root.columns}


# -- names ----------------------------------------------------------------------------------------------------


def test_names_are_found_in_any_case_and_keep_their_declared_spelling() -> None:
    assert columns('SELECT A.K, "a"."ts" AS "My time" FROM a') == {"k": "a.k", "My time": "a.ts"}


def test_an_output_name_that_repeats_is_numbered() -> None:
    assert list(columns("SELECT k, x AS k, s AS K, x + 1, x+1 FROM a")) == ["k", "k_1", "K_2", "x + 1", "x+1"]
    assert list(columns("SELECT * FROM a [NOW], dim")) == ["k", "x", "s", "d", "ts", "k_1", "name", "since"]


def test_a_star_takes_one_source_or_all() -> None:
    assert list(columns("SELECT dim.*, a.x FROM a, dim")) == ["k", "name", "since", "x"]


def test_partition_columns_are_resolved() -> None:
    assert join("SELECT 1 FROM a [PARTITION BY K, X ROWS 3]").inputs[0].window == RowsWindow(3, ("k", "x"))


def test_a_column_that_only_one_source_has_needs_no_qualifier() -> None:
    assert columns("SELECT name, a.k FROM a, dim") == {"name": "dim.name", "k": "a.k"}


def test_event_time_is_zoned_only_if_every_stream_is() -> None:
    assert plan("SELECT event_time() FROM zoned").schema.field("event_time").type == pa.timestamp("us", tz="UTC")
    mixed = plan("SELECT event_time() AS t FROM zoned [NOW], a [NOW]")
    assert mixed.schema.field("t").type == pa.timestamp("us")


# -- conditions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("b.ts >= a.ts", {("b", "a"): 0}),
        ("b.ts > a.ts", {("b", "a"): -1}),
        ("b.ts = a.ts", {("b", "a"): 0, ("a", "b"): 0}),
        ("a.ts + INTERVAL 5 SECONDS >= b.ts", {("a", "b"): 5_000_000}),
        ("b.ts - a.ts <= 5 SECONDS", {("a", "b"): 5_000_000}),
        ("INTERVAL '5' SECOND > b.ts - a.ts", {("a", "b"): 4_999_999}),
        ("b.ts < a.ts + '5 seconds'", {("a", "b"): 4_999_999}),
        ("ABS(a.ts - b.ts) <= '3 seconds'", {("a", "b"): 3_000_000, ("b", "a"): 3_000_000}),
        ("5 SECONDS > ABS(b.ts - a.ts)", {("a", "b"): 4_999_999, ("b", "a"): 4_999_999}),
        ("a.ts - 1 SECOND <= b.ts - 3 SECONDS", {("b", "a"): -2_000_000}),
        ("b.ts BETWEEN a.ts - 1 SECOND AND a.ts + INTERVAL 3 SECONDS", {("b", "a"): 1_000_000, ("a", "b"): 3_000_000}),
        ("(b.ts >= a.ts AND b.ts - a.ts < 2 * INTERVAL 1 SECOND)", {("b", "a"): 0, ("a", "b"): 1_999_999}),
    ],
)
def test_a_condition_on_two_event_times_becomes_bounds(condition: str, bounds: dict[tuple[str, str], int]) -> None:
    made = join(f"SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED] WHERE {condition} OPTIONS (boundary = half_open)")
    assert {(bound.earlier, bound.later): bound.at_most_us for bound in made.bounds} == bounds
    assert made.predicates == ()
    assert all(bound.written in condition for bound in made.bounds)


@pytest.mark.parametrize(
    "condition",
    [
        "ABS(a.ts - b.ts) >= 1 SECOND",
        "a.ts <> b.ts",
        "a.ts >= a.ts",
        "a.ts > '2024-01-01'",
        "b.ts > a.ts OR a.k = 1",
        "NOT b.ts > a.ts",
        "b.ts NOT BETWEEN a.ts AND a.ts + 1 SECOND",
        "DATE_TRUNC('hour', a.ts) = b.ts",
        "dim.since > a.ts",
    ],
)
def test_any_other_condition_stays_a_predicate(condition: str) -> None:
    made = join(f"SELECT a.k FROM a [UNBOUNDED], b [UNBOUNDED], dim WHERE {condition}")
    assert made.bounds == ()
    assert len(made.predicates) == 1


def test_half_a_between_may_be_a_bound_and_the_other_half_a_predicate() -> None:
    made = join("SELECT a.k FROM a [NOW], b [NOW] WHERE b.ts BETWEEN a.ts AND '2024-01-01'")
    assert len(made.bounds) == 1
    assert [to_text(p) for p in made.predicates] == ["b.ts <= TIMESTAMP '2024-01-01 00:00:00'"]


def test_constraints_mean_the_same_wherever_they_stand() -> None:
    shapes = [
        "a, b WINDOW (a, b) = 5 SECONDS WHERE a.k = b.k",
        "a, b WHERE a.k = b.k WINDOW (a, b) = 5 SECONDS",
        "a, b WHERE a.k = b.k AND WINDOW (a, b) = 5 SECONDS",
        "a, b WHERE (WINDOW (A, B) = 5 SECONDS AND (a.k = b.k))",
        "a JOIN b ON a.k = b.k AND WINDOW (a, b) = 5 SECONDS",
        "a INNER JOIN b ON WINDOW (a, b) = 5 SECONDS WHERE a.k = b.k",
        "a CROSS JOIN b WINDOW (a, b) = 5 SECONDS WHERE a.k = b.k",
    ]
    assert len({join(f"SELECT a.k FROM {shape}") == join(f"SELECT a.k FROM {shapes[0]}") for shape in shapes}) == 1
    assert join(f"SELECT a.k FROM {shapes[0]}").retention_us("a") == 5_000_000


def test_half_open_narrows_written_windows_and_not_plain_conditions() -> None:
    made = join(
        "SELECT a.k FROM a, b WINDOW (a, b) = 5 SECONDS WHERE b.ts - a.ts <= 3 SECONDS OPTIONS (boundary=half_open)"
    )
    assert [bound.at_most_us for bound in made.bounds] == [4_999_999, 4_999_999, 3_000_000]


def test_a_path_is_a_choice() -> None:
    made = join("SELECT a.k FROM a, b, c WINDOW PATH (a, b, c) = (1 SECOND, 2 SECONDS)")
    assert made.bounds == ()
    assert len(made.choices) == 1


def test_self_joins_under_two_aliases_are_ordinary() -> None:
    made = join("SELECT l.k FROM a AS l, a AS r WINDOW = 1 SECOND WHERE l.k = r.k")
    assert [one.alias for one in made.inputs] == ["l", "r"]


# -- types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("x + 1", pa.int64()),
        ("x / 2", pa.float64()),
        ("x * 1.5", pa.float64()),
        ("d + d", pa.decimal128(11, 2)),
        ("d * x", pa.decimal128(29, 2)),
        ("x % 3", pa.int64()),
        ("-x", pa.int64()),
        ("ts - ts", pa.duration("us")),
        ("ts + '1 day'", pa.timestamp("us")),
        ("s || 'x'", pa.string()),
        ("x = 1", pa.bool_()),
        ("s LIKE 'x%'", pa.bool_()),
        ("x IN (1, 2, NULL)", pa.bool_()),
        ("CASE WHEN x > 1 THEN 1 ELSE 2.5 END", pa.float64()),
        ("CASE x WHEN 1 THEN 'a' END", pa.string()),
        ("COALESCE(NULL, x)", pa.int32()),
        ("CAST(x AS DECIMAL(8, 1))", pa.decimal128(8, 1)),
        ("x::string", pa.string()),
        ("EXTRACT(YEAR FROM ts)", pa.int64()),
        ("DATE_TRUNC('hour', ts)", pa.timestamp("us")),
        ("GREATEST(x, k, 2)", pa.int64()),
        ("SUBSTR(s, 1, 2)", pa.string()),
        ("TIMESTAMP '2024-01-01'", pa.timestamp("us")),
        ("DATE '2024-01-01'", pa.date32()),
        ("INTERVAL 5 SECONDS", pa.duration("us")),
        ("ROUND(d, 1)", pa.decimal128(11, 2)),
    ],
)
def test_expressions_are_typed(expression: str, kind: pa.DataType) -> None:
    assert plan(f"SELECT {expression} AS v FROM a").schema.field("v").type == kind


@pytest.mark.parametrize(
    ("aggregate", "kind"),
    [
        ("COUNT(*)", pa.int64()),
        ("COUNT(DISTINCT s)", pa.int64()),
        ("SUM(x)", pa.int64()),
        ("SUM(d)", pa.decimal128(38, 2)),
        ("AVG(x)", pa.float64()),
        ("MIN(s)", pa.string()),
        ("MAX(ts)", pa.timestamp("us")),
        ("MEDIAN(x)", pa.float64()),
        ("PERCENTILE(x, 0.9)", pa.float64()),
        ("STDDEV(d)", pa.float64()),
        ("FIRST(s)", pa.string()),
        ("SUM(x) / COUNT(*)", pa.float64()),
        ("MAX(event_time())", pa.timestamp("us")),
    ],
)
def test_aggregates_are_typed(aggregate: str, kind: pa.DataType) -> None:
    assert plan(f"SELECT {aggregate} AS v FROM a [RANGE 1 HOUR]").schema.field("v").type == kind


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("x = 2 IS NULL", "(x = 2) IS NULL"),
        ("x > 1 IS TRUE", "(x > 1) IS TRUE"),
        ("NOT x = 2 IS NOT NULL", "NOT ((x = 2) IS NOT NULL)"),
        ("x > 1 IS DISTINCT FROM x > 2", "(x > 1) IS DISTINCT FROM (x > 2)"),
        ("x IS NULL = FALSE", "(x IS NULL) = FALSE"),
        ("x + 1 IS NULL AND x IN (1, 2) IS TRUE", "((x + 1) IS NULL) AND ((x IN (1, 2)) IS TRUE)"),
        (
            "s LIKE 'a%' IS NOT TRUE OR x BETWEEN 1 AND 2 IS NULL",
            "((s LIKE 'a%') IS NOT TRUE) OR ((x BETWEEN 1 AND 2) IS NULL)",
        ),
    ],
)
def test_is_is_asked_of_a_whole_comparison(written: str, meant: str) -> None:
    assert columns(f"SELECT {written} AS c FROM a") == columns(f"SELECT {meant} AS c FROM a")


@pytest.mark.parametrize(
    "null", ["-CAST(NULL AS BIGINT)", "-(CAST(NULL AS DECIMAL(4, 2)))", "CAST(-CAST(NULL AS INT) AS BIGINT)"]
)
def test_a_null_with_a_type_may_be_negated(null: str) -> None:
    session = wm.Session()
    times = pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))
    session.stream("a", pa.table({"x": [1], "ts": times}), time="ts")
    assert session.sql(f"SELECT {null} AS c FROM a").to_arrow()["c"].to_pylist() == [None]


def test_a_constant_takes_the_type_of_the_column_it_meets() -> None:
    made = join(
        "SELECT a.k FROM a, dim WHERE a.d = 1.25 AND since >= '2024-01-01' AND a.ts < '2024-01-01 10:00:00+02:00'"
    )
    assert [to_text(p) for p in made.predicates] == [
        "a.d = 1.25", "dim.since >= DATE '2024-01-01'", "a.ts < TIMESTAMP '2024-01-01 08:00:00'",
    ]  # fmt: skip
    assert made.predicates[0].args[1].type == pa.decimal128(3, 2)  # type: ignore[union-attr]


@pytest.mark.parametrize(("written", "value"), [(".06 + 0.01", 0.07), ("1 - 0.9", 0.1), ("0.1 * 3", 0.3)])
def test_numbers_with_a_point_make_exact_ones(written: str, value: float) -> None:
    """As where they are decimals, and not as the doubles next to them: 0.06 + 0.01 would be less than 0.07."""
    (predicate,) = join(f"SELECT d FROM b WHERE d <= {written}").predicates
    assert to_text(predicate) == f"b.d <= {value}"


@pytest.mark.parametrize(
    "written",
    [
        "DATE '1994-01-31' + INTERVAL '1' MONTH",
        "DATE '1996-02-29' + INTERVAL 1 YEAR",
        "DATE '1994-01-01' - INTERVAL '3 months'",
        "TIMESTAMP '1994-11-30 12:30:00.5' + INTERVAL '1' QUARTER",
        "DATE '1994-01-31' + INTERVAL '-2' MONTHS",
    ],
)
def test_months_are_added_to_constants_by_the_calendar(written: str) -> None:
    (predicate,) = join(f"SELECT k FROM a WHERE ts < {written}").predicates
    (expected,) = said_by_duckdb(f"SELECT {written} AS t", {})["t"].to_pylist()
    assert isinstance(predicate, Call)
    assert predicate.args[1] == Literal(expected, pa.timestamp("us"))


@pytest.mark.parametrize(
    "written",
    ["INTERVAL '1' YEAR", "DATE '9999-12-01' + INTERVAL 1 YEAR", "k + INTERVAL 1 MONTH", "ts + 1.5 * INTERVAL 1 MONTH"],
)
def test_months_have_no_length_of_their_own(written: str) -> None:
    with pytest.raises(wm.SqlError):
        plan(f"SELECT {written} AS t FROM a")


# -- shapes ---------------------------------------------------------------------------------------------------


def test_a_plain_join_is_a_projection_and_istream_adds_nothing() -> None:
    text = "SELECT {} a.k FROM a [NOW], b [NOW]"
    assert plan(text.format("ISTREAM")).root == plan(text.format("")).root


def test_each_operator_has_its_node() -> None:
    def shape(text: str) -> list[type]:
        node, found = plan(text).root, []
        while not isinstance(node, Join | SetOperation):
            found.append(type(node))
            node = node.child
        return [*found, type(node)]

    assert shape("SELECT DISTINCT k FROM a [NOW]") == [Distinct, Project, Join]
    assert shape("SELECT k, COUNT(*) FROM a [NOW] GROUP BY k") == [Project, GroupBy, Join]
    assert shape("SELECT COUNT(*) FROM a [NOW]") == [Project, GroupBy, Join]
    assert shape("SELECT ISTREAM DISTINCT k FROM a [NOW]") == [Changes, Distinct, Project, Join]
    assert shape("SELECT DSTREAM k FROM a [NOW]") == [Changes, Project, Join]
    assert shape("SELECT k FROM a [NOW] ORDER BY k DESC LIMIT 3") == [TopK, Project, Join]
    assert shape("SELECT RSTREAM k FROM a [NOW] ORDER BY k LIMIT 3 EVERY 1 s") == [Changes, TopK, Project, Join]
    assert shape("SELECT k FROM a [NOW] ORDER BY k OFFSET 2") == [TopK, Project, Join]
    assert shape("SELECT k FROM a [NOW] ORDER BY k FETCH FIRST 2 ROWS WITH TIES") == [Over, Project, Join]
    assert shape("SELECT DISTINCT ON (k) x FROM a [NOW] ORDER BY x LIMIT 2") == [TopK, Over, Project, Join]
    assert shape("SELECT k FROM a ORDER BY k") == [Project, Join]
    assert shape("SELECT k FROM a [NOW] EXCEPT ALL SELECT k FROM b [NOW]") == [SetOperation]


def test_groups_may_be_named_by_alias_and_by_number() -> None:
    texts = [
        "SELECT x % 2 AS odd, COUNT(*) AS n FROM a [NOW] GROUP BY odd",
        "SELECT x % 2 AS odd, COUNT(*) AS n FROM a [NOW] GROUP BY 1",
        "SELECT x % 2 AS odd, COUNT(*) AS n FROM a [NOW] GROUP BY x % 2",
    ]
    assert plan(texts[0]).root == plan(texts[1]).root == plan(texts[2]).root


def test_an_expression_with_nan_is_the_one_that_is_grouped_by() -> None:
    shifted = "x + CAST('nan' AS DOUBLE)"
    root = plan(f"SELECT {shifted} AS y, COUNT(*) AS n FROM a [NOW] GROUP BY {shifted}").root
    assert isinstance(root, Project)
    assert isinstance(root.child, GroupBy)


def test_order_keys_stand_over_the_output_columns() -> None:
    root = plan("SELECT k AS n, x + 1 AS y, COUNT(*) FROM a [NOW] GROUP BY k, x ORDER BY 3 DESC, n, x + 1 LIMIT 5").root
    assert isinstance(root, TopK)
    assert [(key.expression.name, key.descending) for key in root.keys if isinstance(key.expression, Column)] == [
        ("COUNT(*)", True), ("n", False), ("y", False),
    ]  # fmt: skip


def test_a_subquery_carries_its_event_time_unseen() -> None:
    made = join("SELECT * FROM (SELECT a.k, b.x FROM a, b WINDOW = 5 SECONDS) [RANGE 1 HOUR] AS d")
    derived = made.inputs[0].relation
    assert isinstance(derived, Derived)
    assert derived.time == "_ts"
    assert derived.schema.names == ["k", "x", "_ts"]
    assert list(columns("SELECT * FROM (SELECT a.k, b.x FROM a, b WINDOW = 5 SECONDS) AS d")) == ["k", "x"]


@pytest.mark.parametrize(
    ("inner", "time"),
    [
        ("SELECT k, event_time() AS t FROM a", "t"),
        ("SELECT k, ts AS at FROM a", "at"),
        ("SELECT k FROM a", "_ts"),
        ("SELECT ISTREAM k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k", "_ts"),
    ],
)
def test_the_event_time_of_a_subquery_is_the_column_that_holds_it(inner: str, time: str) -> None:
    assert join(f"SELECT 1 FROM ({inner}) AS d").inputs[0].time == time


def test_event_time_stands_for_the_newest_member() -> None:
    root = plan("SELECT event_time() FROM a").root
    assert isinstance(root, Project)
    assert root.columns == (("event_time", EventTime()),)


def test_a_query_of_a_script_is_bound_in_place() -> None:
    script = "CREATE SINK o WITH (sink='x') AS SELECT k FROM a;\nCREATE SINK p WITH (sink='x') AS SELECT nope FROM a"
    first, second = parse_script(script)
    assert isinstance(first, CreateSink)
    assert isinstance(second, CreateSink)
    assert bind_query(first.query, CATALOG, script).sql == "SELECT k FROM a"
    with pytest.raises(BindError) as caught:
        bind_query(second.query, CATALOG, script)
    assert script[slice(*(caught.value.span or (0, 0)))] == "nope"


def test_options_reach_the_plan() -> None:
    made = plan("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS (JOIN = Hash, refresh = 5 seconds)")
    assert made.options.changed() == {"join": "hash", "refresh": "5 seconds"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("FROM TUMBLE(a, ts, INTERVAL '1 MINUTE')", "FROM TUMBLE(a, 1 MINUTE)"),
        ("FROM TUMBLE(a, ts, INTERVAL '1 MINUTE', INTERVAL '5 SECONDS')", "FROM TUMBLE(a, 1 MINUTE, OFFSET 5 SECONDS)"),
        ('FROM HOP((SELECT * FROM a), "ts", 1 MINUTE, 2 MINUTES)', "FROM HOP((SELECT * FROM a), 1 MINUTE, 2 MINUTES)"),
    ],
)
def test_windows_as_risingwave_writes_them(written: str, meant: str) -> None:
    grouped = "SELECT k, COUNT(*) AS n {} GROUP BY k, window_start, window_end"
    assert plan(grouped.format(written)).root == plan(grouped.format(meant)).root


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end, k EMIT CHANGES", "OPTIONS (emit = 'changes')"),
        ("FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end, k EMIT FINAL", ""),
        ("FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE", ""),
        ("FROM a [ROWS 2] GROUP BY k EMIT CHANGES OPTIONS (timezone = 'UTC')", ""),
        ("FROM a [ROWS 2] emit GROUP BY emit.k", None),
    ],
)
def test_emit_says_what_the_option_says(written: str, meant: str | None) -> None:
    emitted = plan(f"SELECT k, COUNT(*) AS n {written}").root
    if meant is not None:
        assert emitted == plan(f"SELECT k, COUNT(*) AS n {written.partition('EMIT')[0]} {meant}").root


def test_emit_is_said_once() -> None:
    with pytest.raises(wm.ParseError, match="emit is said twice"):
        plan("SELECT k FROM TUMBLE(a, 1 MINUTE) GROUP BY k, window_start EMIT FINAL OPTIONS (emit = 'complete')")


MINUTE = "TUMBLE(a, 1 MINUTE) GROUP BY k, window_start, window_end"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("k FROM a GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)", f"k FROM {MINUTE}"),
        ("k FROM a GROUP BY k, tumble(interval '1 minute')", f"k FROM {MINUTE}"),
        (
            "k, TUMBLE_END(a.ts, INTERVAL '1' MINUTE) AS e FROM a GROUP BY k, TUMBLE(a.ts, INTERVAL '1' MINUTE)",
            f"k, window_end AS e FROM {MINUTE}",
        ),
        (
            "HOP_START(ts, 1 MINUTE, 2 MINUTES) AS s, COUNT(*) AS n FROM a GROUP BY HOP(ts, 1 MINUTE, 2 MINUTES) "
            "HAVING HOP_END(ts, 1 MINUTE, 2 MINUTES) > '2026-01-01'",
            "window_start AS s, COUNT(*) AS n FROM HOP(a, 1 MINUTE, 2 MINUTES) GROUP BY window_start, window_end "
            "HAVING window_end > '2026-01-01'",
        ),
        (
            "k, COUNT(*) AS n FROM a GROUP BY k, TUMBLE(ts, 1 MINUTE) QUALIFY RANK() OVER (PARTITION BY "
            "TUMBLE_START(ts, 1 MINUTE) ORDER BY COUNT(*)) = 1",
            f"k, COUNT(*) AS n FROM {MINUTE} QUALIFY RANK() OVER (PARTITION BY window_start ORDER BY COUNT(*)) = 1",
        ),
        (
            "k, COUNT(*) AS n, RANK() OVER w AS r FROM a GROUP BY k, TUMBLE(ts, 1 MINUTE) WINDOW w AS (PARTITION BY "
            "TUMBLE_START(ts, 1 MINUTE) ORDER BY COUNT(*))",
            f"k, COUNT(*) AS n, RANK() OVER (PARTITION BY window_start ORDER BY COUNT(*)) AS r FROM {MINUTE}",
        ),
        (
            "b.k, SESSION_START(b.ts, 1 MINUTE) AS s FROM a AS b WHERE b.x > 1 GROUP BY b.k, SESSION(b.ts, 1 MINUTE)",
            "b.k, window_start AS s FROM SESSION((SELECT * FROM a AS b WHERE b.x > 1), 1 MINUTE PARTITION BY k) AS b "
            "GROUP BY b.k, window_start, window_end",
        ),
        (
            "tumble(1 MINUTE) AS w, COUNT(*) AS n FROM a GROUP BY w HAVING w.start > '2026-01-01'",
            "NAMED_STRUCT('start', window_start, 'end', window_end) AS w, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) "
            "GROUP BY window_start, window_end HAVING window_start > '2026-01-01'",
        ),
        (
            "session(1 MINUTE) AS window, k FROM a GROUP BY window, k",
            'STRUCT(window_start AS start, window_end AS "end") AS window, k FROM SESSION(a, 1 MINUTE PARTITION BY k) '
            "GROUP BY k, window_start, window_end",
        ),
        (
            "window, window.start, window.end AS e, k FROM a GROUP BY window(ts, '10 minutes', '5 minutes'), k",
            "NAMED_STRUCT('start', window_start, 'end', window_end) AS window, window_start AS start, window_end AS e, "
            "k FROM HOP(a, 5 MINUTES, 10 MINUTES) GROUP BY k, window_start, window_end",
        ),
        (
            "window(ts, '1 hour', '1 hour', '15 minutes'), COUNT(*) AS n FROM a GROUP BY 1",
            "NAMED_STRUCT('start', window_start, 'end', window_end) AS window, COUNT(*) AS n "
            "FROM TUMBLE(a, 1 HOUR, OFFSET 15 MINUTES) GROUP BY window_start, window_end",
        ),
        (
            "session_window.*, k FROM a GROUP BY session_window(ts, '5 minutes'), k",
            'window_start AS start, window_end AS "end", k FROM SESSION(a, 5 MINUTES PARTITION BY k) '
            "GROUP BY k, window_start, window_end",
        ),
        (
            "k, COUNT(*) AS n FROM a WINDOW TUMBLING (SIZE 1 DAY) WHERE x > 1 GROUP BY k",
            "k, COUNT(*) AS n FROM TUMBLE(a, 1 DAY) WHERE x > 1 GROUP BY k, window_start, window_end",
        ),
        (
            "k, WINDOWSTART FROM a WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS) GROUP BY k "
            "HAVING WINDOWEND > '2026-01-01' EMIT CHANGES",
            "k, window_start AS WINDOWSTART FROM HOP(a, 10 SECONDS, 30 SECONDS) GROUP BY k, window_start, window_end "
            "HAVING window_end > '2026-01-01' OPTIONS (emit = 'changes')",
        ),
        (
            "k, COUNT(*) AS n FROM a WINDOW SESSION (60 SECONDS) WHERE x > 1 GROUP BY k",
            "k, COUNT(*) AS n FROM SESSION((SELECT * FROM a WHERE x > 1), 60 SECONDS PARTITION BY k) AS a "
            "GROUP BY k, window_start, window_end",
        ),
    ],
)
def test_windows_as_groups_are_those_of_from(written: str, meant: str) -> None:
    assert plan(f"SELECT {written}").root == plan(f"SELECT {meant}").root


def test_windows_as_groups_are_ordered_by() -> None:
    start = "TUMBLE_START(ts, 1 MINUTE)"
    ordered = plan(f"SELECT {start} AS s FROM a GROUP BY TUMBLE(ts, 1 MINUTE) ORDER BY {start}")
    meant = plan("SELECT window_start AS s FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start ORDER BY s")
    assert ordered.order == meant.order


def test_a_window_that_begins_with_another_is_partitioned_by_what_that_says() -> None:
    named = "WINDOW w AS (PARTITION BY window_start), v AS (w ORDER BY x)"
    written = plan(f"SELECT SUM(x) OVER v AS s FROM TUMBLE(a, 1 MINUTE) {named}").root
    assert (
        written == plan("SELECT SUM(x) OVER (PARTITION BY window_start ORDER BY x) AS s FROM TUMBLE(a, 1 MINUTE)").root
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT TUMBLE(ts, 1 MINUTE) FROM a", "windows are groups or stand in FROM"),
        ("SELECT k FROM a ORDER BY TUMBLE_START(ts, 1 MINUTE)", "windows are groups or stand in FROM"),
        (
            "SELECT k FROM a GROUP BY k, TUMBLE(ts, 1 MINUTE) ORDER BY TUMBLE_END(ts, 2 MINUTES)",
            "windows are groups or",
        ),
        ("SELECT k FROM a, b GROUP BY k, TUMBLE(a.ts, 1 MINUTE)", "windows as groups go with one stream"),
        ("SELECT k FROM a [ROWS 2] GROUP BY k, TUMBLE(ts, 1 MINUTE)", "windows as groups go with one stream"),
        ("SELECT k FROM a GROUP BY ROLLUP (k, TUMBLE(ts, 1 MINUTE))", "windows as groups go with one stream"),
        ("SELECT k FROM a GROUP BY TUMBLE(ts, 1 MINUTE), TUMBLE(ts, 2 MINUTES), k", "by one kind of windows"),
        ("SELECT TUMBLE_START(ts, 2 MINUTES) FROM a GROUP BY TUMBLE(ts, 1 MINUTE)", "by one kind of windows"),
        ("SELECT COUNT(*) FROM a GROUP BY k + 1, SESSION(ts, 1 MINUTE)", "this is an expression"),
        ("SELECT COUNT(*) FROM a, b WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k", "windows as groups go with one stream"),
        ("SELECT k FROM a WINDOW TUMBLING (1 HOUR) GROUP BY k", "expected the size of windows, found '1'"),
        ("SELECT k FROM a WINDOW HOPPING (SIZE 1 HOUR) GROUP BY k", "HOP needs a slide and a size"),
        (
            "SELECT k FROM a WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 MINUTE) GROUP BY k",
            "expected the size of windows, found 'GRACE'",
        ),
    ],
)
def test_windows_as_groups_that_are_none(query: str, message: str) -> None:
    with pytest.raises(wm.ParseError, match=message):
        plan(query)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.k FROM a JOIN b WITHIN 1 HOUR ON a.k = b.k", "a.k FROM a JOIN b ON a.k = b.k AND WINDOW (a, b) = 1 HOUR"),
        (
            "u.k FROM a u LEFT JOIN b WITHIN 5 MINUTES ON u.k = b.k AND b.x > 1",
            "u.k FROM a u LEFT JOIN b ON u.k = b.k AND b.x > 1 AND WINDOW (u, b) = 5 MINUTES",
        ),
        (
            "k, word FROM a LATERAL VIEW EXPLODE(SPLIT(s, ',')) t AS word",
            "k, word FROM a CROSS JOIN UNNEST(SPLIT(s, ',')) AS t (word)",
        ),
        (
            "k, t.word FROM a LATERAL VIEW OUTER EXPLODE(SPLIT(s, ',')) t AS word WHERE x > 1",
            "k, t.word FROM a LEFT JOIN UNNEST(SPLIT(s, ',')) AS t (word) ON TRUE WHERE x > 1",
        ),
        ("k, EXPLODE(SPLIT(s, ',')) AS word FROM a", "k, UNNEST(SPLIT(s, ',')) AS word FROM a"),
        ("FLOOR(ts TO HOUR) AS h, FLOOR(x) AS f FROM a", "DATE_TRUNC('hour', ts) AS h, FLOOR(x) AS f FROM a"),
        ("STRUCT(k, x AS y, x + 1) AS s FROM a", "NAMED_STRUCT('k', k, 'y', x, 'col3', x + 1) AS s FROM a"),
        ("{'k': k, 'y': x}.y AS s FROM a", "STRUCT_PACK(k := k, y := x).y AS s FROM a"),
        (
            "k, x + 1 AS y, COUNT(*) AS n, 1 AS one, MEDIAN(x) AS m FROM a [NOW] GROUP BY ALL",
            "k, x + 1 AS y, COUNT(*) AS n, 1 AS one, MEDIAN(x) AS m FROM a [NOW] GROUP BY k, x + 1",
        ),
        ("COUNT(*) AS n FROM a [NOW] GROUP BY ALL", "COUNT(*) AS n FROM a [NOW] GROUP BY ()"),
        (
            "window_start, k, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY ALL",
            "window_start, k, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, k",
        ),
        (
            "k, s, COUNT(*) AS n FROM a [NOW] GROUP BY k, s WITH ROLLUP",
            "k, s, COUNT(*) AS n FROM a [NOW] GROUP BY ROLLUP (k, s)",
        ),
        ("x * 2 AS y, y + 1 AS z FROM a", "x * 2 AS y, x * 2 + 1 AS z FROM a"),
        ("k AS x, x AS y FROM a", "k AS x, a.x AS y FROM a"),
        (
            "k, COUNT(*) AS n, n + 1 AS m FROM a [NOW] GROUP BY k HAVING n > 1 AND m < 9",
            "k, COUNT(*) AS n, COUNT(*) + 1 AS m FROM a [NOW] GROUP BY k HAVING COUNT(*) > 1 AND COUNT(*) + 1 < 9",
        ),
        ("k, LAST(x, TRUE) AS l FROM a [NOW] GROUP BY k", "k, LAST(x) AS l FROM a [NOW] GROUP BY k"),
        ("ARRAY(x, k) AS l FROM a", "[x, k] AS l FROM a"),
        (
            "COLLECT_LIST(x) FILTER (WHERE k > 1) AS l FROM a [NOW]",
            "ARRAY_AGG(x) FILTER (WHERE x IS NOT NULL AND k > 1) AS l FROM a [NOW]",
        ),
    ],
)
def test_what_other_engines_write_is_read_as_what_it_is_here(written: str, meant: str) -> None:
    assert plan(f"SELECT {written}").root == plan(f"SELECT {meant}").root


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (
            "SELECT a.k FROM a JOIN b WITHIN 1 HOUR GRACE PERIOD 15 MINUTES ON a.k = b.k",
            "GRACE PERIOD says how late rows may be",
            "lateness = '15 minutes'",
        ),
        ("SELECT a.k FROM a JOIN b WITHIN (1 HOUR, 2 HOURS) ON a.k = b.k", "WITHIN takes one interval", "BETWEEN"),
        (
            "SELECT a.k FROM a JOIN b ON a.k = b.k JOIN c WITHIN 1 HOUR ON a.k = c.k",
            "WITHIN stands between two streams",
            "WINDOW (a, c)",
        ),
        ("SELECT a.k FROM a LATERAL VIEW POSEXPLODE(SPLIT(s, ',')) t", "LATERAL VIEW goes with EXPLODE", "ORDINALITY"),
        ("SELECT CEIL(ts TO HOUR) FROM a", "CEIL of a time", "DATE_TRUNC('hour', ts)"),
        (
            "SELECT FIRST(x) OVER (PARTITION BY k ORDER BY ts SESSION WITH GAP INTERVAL '5 MINUTES') FROM a",
            "expected ), found 'SESSION'",
            "FROM SESSION(a, 5 MINUTES PARTITION BY k)",
        ),
        ("SELECT k FROM a EMIT CHANGES LIMIT 5", "LIMIT needs ORDER BY", "ORDER BY x LIMIT 5"),
        ("SELECT *, COUNT(*) FROM a [NOW] GROUP BY ALL", "GROUP BY ALL goes by what is listed", "list the columns"),
        ("SELECT k, RANK() OVER (ORDER BY ts) AS r, r + 1 FROM a", "there is no column r", "is a column of the answer"),
        ("SELECT ARRAY(SELECT x FROM b) FROM a", "ARRAY goes around values", "ARRAY_AGG(x)"),
        ("SELECT (k, x) AS r FROM a", "(k, x) is not supported in an expression", "STRUCT(x, y AS name)"),
        ("SELECT [y + 1 FOR y IN [1, 2]] FROM a", "is not supported in an expression", "UNNEST(a.items)"),
        ("SELECT k FROM a WHERE s LIKE ANY ('a%', 'b%')", "is not supported in an expression", "OR x LIKE 'b%'"),
        ("SELECT ts::TIME FROM a", "TIME is not a type that CAST knows", "DATE_TRUNC('day', ts)"),
        ("SELECT [k] || x FROM a", "CONCAT needs text", "LIST_APPEND(l, x)"),
        ("SELECT k FROM public.a", "did not expect '.' here", "names of streams and tables have one part"),
        ("SELECT k FROM a USING SAMPLE 10", "USING SAMPLE is not part of the language", "a [ROWS 100]"),
        ("SELECT k FROM a CLUSTER BY k", "CLUSTER BY is not part of the language", "write ORDER BY"),
        ("FROM a", "expected a statement", "write SELECT * FROM a"),
        ("SUMMARIZE a", "expected a statement", "write the aggregates"),
        ("SELECT POSEXPLODE(SPLIT(s, ',')) FROM a", "there is no function POSEXPLODE", "WITH ORDINALITY"),
        ("SELECT STRING(k) FROM a", "there is no function STRING", "CAST(x AS STRING)"),
        ("SELECT STRUCT(k, k) FROM a", "the fields of a struct have names that differ", "STRUCT(x AS a"),
        ("SELECT NAMED_STRUCT(k, x) FROM a", "takes a name and a value", "NAMED_STRUCT('a', x)"),
    ],
)
def test_what_they_write_otherwise_is_refused_with_what_to_write(query: str, message: str, hint: str) -> None:
    with pytest.raises(wm.errors.SqlError) as caught:
        plan(query)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.span is not None


def test_names_may_be_quoted_as_in_flink_and_spark() -> None:
    assert plan("SELECT `a`.`k`, x AS `the x` FROM `a`").root == plan('SELECT a.k, x AS "the x" FROM a').root


def test_a_table_of_one_version_is_joined_as_of_any_time() -> None:
    joined = "SELECT a.k, d.* FROM a JOIN dim {} AS d ON a.k = d.k"
    assert plan(joined.format("FOR SYSTEM_TIME AS OF PROCTIME()")).root == plan(joined.format("")).root
