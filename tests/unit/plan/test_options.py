"""Options are read once, into values, by one table; what is wrong with one points at it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.plans import golden_catalog
from watersmeet.errors import OptionError
from watersmeet.operators.keeping.policies import POLICIES
from watersmeet.physical.pipeline import WORDS
from watersmeet.plan.memory import Memory
from watersmeet.plan.options import OPTIONS, Buckets, Options
from watersmeet.plan.published import ALGORITHMS, CLASSIC_JOIN, load
from watersmeet.runtime.build import build_query
from watersmeet.sql import bind

JOIN = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE"


def test_every_option_has_a_field_and_every_field_an_option() -> None:
    assert {one.field for one in OPTIONS.values()} | {"written"} == {one.name for one in fields(Options)} - {"places"}
    assert not any(Options().has(name) for name in OPTIONS)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("boundary", "HALF_OPEN", "half_open"),
        ("buckets", "100", Buckets({"": 100})),
        ("buckets", "a:5, B: 33", Buckets({"a": 5, "B": 33})),
        ("buckets", "total 36", Buckets(total=36)),
        ("buckets", "auto", None),
        ("invalidate", "a:Probe, b:all", {"a": "probe", "b": "all"}),
        ("refresh", "5 seconds", 5_000_000),
        ("refresh", "eager", None),
        ("expire", "auto", "auto"),
        ("order", "a: a,b; b: b, a", {"a": ("a", "b"), "b": ("b", "a")}),
        ("memory", "64 MB", Memory(size=64_000_000)),
        ("memory", "unlimited", None),
        ("max_lag", "1 minute", 60_000_000),
        ("shed_seed", "7", 7),
        ("archive", "file:///mnt/here", "/mnt/here"),
        ("archive", "none", None),
        ("timezone", "Europe/Paris", "Europe/Paris"),
    ],
)
def test_a_text_becomes_a_value_and_is_told_as_written(name: str, text: str, value: object) -> None:
    made = Options.of({name.upper(): text})
    assert getattr(made, OPTIONS[name].field) == value
    assert made.has(name) == (value is not None)
    assert made.changed() == ({name: made.text(name)} if made.has(name) else {})
    assert pickle.loads(pickle.dumps(made)) == made


def test_another_value_is_not_told_as_what_was_written() -> None:
    made = Options.of({"memory": "64 MB", "shed": "life"}).but(memory=Memory(rows=12))
    assert made.changed() == {"memory": "12 rows", "shed": "life"}


def test_values_are_checked_as_texts_are() -> None:
    with pytest.raises(OptionError, match="option join = 'quick' is unknown"):
        Options(join="quick")


@pytest.mark.parametrize(
    "written",
    [
        "jion = 'hash'", "join = 'quick'", "Buckets = 'a:0'", "refresh = 'soon'", "expire = '0 s'", "memory = '5'",
        "shed_seed = 'x'", "TIMEZONE = 'Nowhere'", "archive = 's3://there'", "order = 'a,,b'", "invalidate = 'some'",
        "shed = 'prob'", "queue = 'modular'", "join = 'w_join', buckets = 5", "order = 'b'",
        *(f"{name} = ''" for name in OPTIONS if name != "boundary"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_option_points_at_it(written: str) -> None:
    """Also beside other options, and whether its text or the query is what it does not fit."""
    sql = f"{JOIN} OPTIONS (boundary = 'closed', {written})"
    with pytest.raises(OptionError) as caught:  # what an option cannot mean its parser must refuse
        bind(sql, golden_catalog())
    start, end = caught.value.span or (0, 0)
    assert sql[start:end] == written.rsplit("', ", 1)[-1]
    assert caught.value.option == sql[start:end].split(" ")[0].lower()


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        (JOIN.replace("a.k = b.k", "a.k < b.k") + "\nOPTIONS (boundary = 'closed', JOIN = 'hash')", "JOIN = 'hash'"),
        (JOIN + " OPTIONS (memory = '3 bytes')", "memory = '3 bytes'"),
    ],
)
def test_what_shows_only_when_a_query_is_built_points_at_its_option_too(sql: str, place: str) -> None:
    plan = bind(f"  {sql}", golden_catalog())
    with pytest.raises(OptionError) as caught:
        build_query(plan)
    start, end = caught.value.span or (0, 0)
    assert plan.sql[start:end] == place
    assert "^" in str(caught.value)


def test_the_words_of_options_are_those_of_what_they_choose_from() -> None:
    assert set(OPTIONS["shed"].words) == {"auto", "none", *POLICIES}
    assert set(OPTIONS["pipeline"].words) == {"auto", *WORDS}


def test_every_published_algorithm_is_found_where_the_table_says() -> None:
    published = [one for one in ALGORITHMS.values() if one.is_published]
    assert [one.name for one in ALGORITHMS.values() if not one.is_published] == ["auto", "own"]
    for one in published:
        assert callable(load(one.made_by))
        assert one.words
        assert one.loops == (one.forgets is None)
    assert load(CLASSIC_JOIN).__name__ == "ClassicJoin"


WALLED = """
import sys
from watersmeet.runtime.build import build_query
from watersmeet.sql import bind
from tests.plans import golden_catalog
from watersmeet.runtime.build import build_query
build_query(bind("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE", golden_catalog()))
assert not [name for name in sys.modules if name.startswith("watersmeet.papers")]
build_query(bind("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS (join = 'hw')", golden_catalog()))
assert "watersmeet.papers.joins.h02" in sys.modules
"""


def test_a_query_that_asks_for_no_algorithm_of_the_papers_loads_none() -> None:
    subprocess.run([sys.executable, "-c", WALLED], check=True)


def test_words_may_be_written_in_any_case() -> None:
    given = {"refresh": "EAGER", "expire": "Auto", "buckets": "AUTO", "memory": "Unlimited", "archive": "NONE"}
    made = Options.of(given)
    assert made.expire_us == "auto"
    assert made.changed() == {"expire": "Auto"}
