"""What the options of a join become, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.plan.method import DEFAULT_BUCKETS, Method
from watersmeet.plan.options import Options
from watersmeet.plan.published import ORDER_RULES


def method(streams: str = "abc", tables: tuple[str, ...] = (), **options: str) -> Method:
    return Method.of(Options.of(options), list(streams), tables)


def two_streams() -> watersmeet.Session:
    session = watersmeet.Session()
    for name in "ab":
        times = pa.array([1, 2, 3], pa.timestamp("s"))
        session.stream(name, pa.table({"k": [1, 2, 1], "x": [1, 2, 3], "ts": times}), time="ts")
    return session


def test_without_options_the_engine_joins_in_its_own_way() -> None:
    assert method() == Method()
    assert not method(boundary="half_open").is_classic


def test_an_order_alone_steers_the_engines_own_join() -> None:
    made = method(order="b, a, c")
    assert made.algorithm == "auto"
    assert made.orders == {"a": ("a", "b", "c"), "b": ("b", "a", "c"), "c": ("c", "b", "a")}


@pytest.mark.parametrize("rule", ORDER_RULES)
def test_an_order_may_be_a_rule(rule: str) -> None:
    made = method(order=rule.upper())
    assert (made.algorithm, made.orders, made.order_rule) == ("auto", {}, ORDER_RULES[rule])
    assert method(order=rule, join="nested_loop").order_rule is ORDER_RULES[rule]


def test_a_rule_is_no_order_of_a_chain() -> None:
    with pytest.raises(OptionError, match="order = 'size' is a rule for loops, and join = 'nlw' is none"):
        method(order="size", join="nlw")


@pytest.mark.parametrize("options", [{"buckets": "5"}, {"invalidate": "all"}, {"refresh": "1 s"}, {"expire": "1 s"}])
def test_any_other_option_alone_asks_for_the_hybrid_join(options: dict[str, str]) -> None:
    assert method(**options).algorithm == "hybrid"


def test_settings_are_for_all_inputs_or_for_each() -> None:
    made = method("ab", ("t",), join="hash", buckets="A: 5, t: 7", invalidate="b:probe")
    assert made.buckets == {"a": 5, "b": DEFAULT_BUCKETS, "t": 7}
    assert made.invalidate == {"a": "probe_insert", "b": "probe"}
    assert method("ab", join="hash", buckets="9, b: 2").buckets == {"a": 9, "b": 2}


def test_in_the_naive_join_new_rows_stay_in_their_place() -> None:
    assert set(method(join="naive", order="c, a, b").orders.values()) == {("c", "a", "b")}
    assert set(method(join="naive").orders.values()) == {("a", "b", "c")}
    assert method(join="naive").invalidate == dict.fromkeys("abc", "all")


def test_tables_that_an_order_leaves_out_come_last() -> None:
    assert method("ab", ("t",), order="b, a").orders == {"a": ("a", "b", "t"), "b": ("b", "a", "t")}
    assert method("ab", ("t",), order="t, b, a").orders["a"] == ("a", "t", "b")


def test_only_a_lazy_join_has_new_rows_further_in() -> None:
    said = "a: b,a; b: b,a"
    assert method("ab", refresh="1 s", order=said).orders["a"] == ("b", "a")
    with pytest.raises(OptionError, match="they come first"):
        method("ab", join="hash", order=said)


@pytest.mark.parametrize("condition", ["a.x < b.x", "a.k = b.k OR a.x = b.x"])
def test_a_hash_join_without_an_equality_says_what_it_lacks(condition: str) -> None:
    sql = f"SELECT a.k FROM a, b WHERE {condition} WINDOW = 1 MINUTE OPTIONS (join = 'hash')"
    with pytest.raises(OptionError, match=r"needs an equality for every input, but a new row of a .* finds b by none"):
        two_streams().sql(sql).to_arrow()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "SELECT a.k FROM a [ROWS 5], b [RANGE 1 MINUTE] WHERE a.k = b.k OPTIONS (join = 'merge')",
            "ROWS windows count rows",
        ),
        ("SELECT a.k FROM a, b WHERE a.x < b.x WINDOW = 1 MINUTE OPTIONS (join = 'hw')", "cannot answer this query"),
        ("SELECT a.k FROM a, b WHERE a.x < b.x WINDOW = 1 MINUTE OPTIONS (join = 'xjoin')", "cannot answer this query"),
    ],
)
def test_an_algorithm_says_why_it_cannot_answer(query: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        two_streams().sql(query).to_arrow()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("join = 'hash', windows = 'gca'", "it goes with join = 'merge'"),
        ("join = 'nlw', order = 'a: a,b; b: b,a'", "has one order"),
        ("join = 'hw', buckets = 'a:3, b:4'", "has one number"),
        ("join = 'merge', order = 'b, a'", "does not go with join = 'merge'"),
        ("join = 'merge', invalidate = 'all'", "does not go with join = 'merge'"),
        ("join = 'w_join', buckets = 5", "has no buckets"),
    ],
)
def test_options_that_an_algorithm_of_h02_does_not_have_are_named(options: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        two_streams().sql(f"SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS ({options})")


def test_unequal_windows_are_enough_to_ask_for_a_merge() -> None:
    plan = two_streams().sql("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS (windows = 'lca')").plan
    assert (plan.method.algorithm, plan.method.windows) == ("merge", "lca")


def test_metrics_show_the_work_of_an_algorithm_and_of_nothing_else() -> None:
    sql = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE"
    query = two_streams().sql(f"{sql} OPTIONS (join = 'nested_loop')")
    assert query.to_arrow().num_rows == 5
    work = query.metrics()["work"]
    assert (work["results"], work["inserted"], work["scanned"]) == (5, 6, 9)
    plain = two_streams().sql(sql)
    plain.to_arrow()
    assert "work" not in plain.metrics()
