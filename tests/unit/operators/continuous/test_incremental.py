"""Aggregates of users that are told what comes and goes, against plain Python over the rows that are in."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.unit.histories import history, plain, run, same
from watersmeet.plan.expressions import Aggregate, Column
from watersmeet.plan.user_functions import user_function

NOON = datetime(2026, 1, 1, 12)


class Squares:
    """The sum of squares, and what it cost."""

    told: ClassVar[Counter[str]] = Counter()

    def __init__(self, factor: int = 1) -> None:
        self.total, self.factor = 0, factor

    def add(self, x: int) -> None:
        self._note("add", x)
        self.total += self.factor * pc.sum(pc.multiply(x, x)).as_py()

    def remove(self, x: int) -> None:
        self._note("remove", x)
        self.total -= self.factor * pc.sum(pc.multiply(x, x)).as_py()

    def result(self) -> int:
        self.told["result"] += 1
        return self.total

    def _note(self, method: str, x: Any) -> None:
        assert isinstance(x, pa.Int64Array)
        assert len(x) > 0
        self.told[method] += 1
        self.told["values"] += len(x)


class Weighted:
    """Of two arguments, of which either may be NULL."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def add(self, x: "BIGINT", s: "STRING") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        self.counts.update(zip(x.to_pylist(), s.to_pylist(), strict=True))

    def remove(self, x: "BIGINT", s: "STRING") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        self.counts.subtract(zip(x.to_pylist(), s.to_pylist(), strict=True))

    def result(self) -> str:
        return ";".join(sorted(f"{x}{s}" for (x, s), n in self.counts.items() for _ in range(n)))


def squares(values: list[Any]) -> int | None:
    return sum(value * value for value in values) if values else None


@pytest.mark.parametrize("distinct", [False, True])
def test_what_instances_say_is_made_of_the_values_that_are_in(distinct: bool) -> None:
    """Rows leave in any order, groups empty, and all is saved and loaded between batches."""
    user = user_function("aggregate", "squares", Squares, None, None, "")
    assert (user.arguments, user.result) == ((pa.int64(),), pa.int64())
    aggregate = Aggregate(user.call_name, (Column("s", "x", pa.int64()),), pa.int64(), distinct, user)
    values = [n % 11 if n % 7 else None for n in range(300)]
    for groups, window in ((20, 40), (2, 60)):
        for fifo in (False, True):
            past = history(values, groups=groups, window=window, fifo=fifo, seed=3)
            for cuts in (0, 6):
                expected = plain(past, lambda values: squares([*set(values)] if distinct else values))
                same(run(aggregate, past, fifo=fifo, cuts=cuts, seed=3), expected)


def test_a_value_is_told_when_it_comes_and_when_it_goes_and_never_again() -> None:
    user = user_function("aggregate", "squares", Squares, None, None, "")
    aggregate = Aggregate(user.call_name, (Column("s", "x", pa.int64()),), pa.int64(), user=user)
    past = history([*range(300)], groups=1, window=100, fifo=True, seed=1)
    Squares.told.clear()
    same(run(aggregate, past, fifo=True), plain(past, squares))
    cells = past.cells().size
    assert Squares.told["values"] <= 600
    assert Squares.told["add"] + Squares.told["remove"] <= cells + 100
    # The last cell leaves the group empty, and is not asked.
    assert Squares.told["result"] < cells


def rows() -> pa.Table:
    """Ties, NULLs, duplicates, a group that empties, rows out of order within their lateness."""
    seconds = [0, 2, 1, 3, 3, 3, 7, 4, 12, 12]
    return pa.table(
        {
            "k": [1, 1, 2, 1, 2, 1, 1, 2, 1, 3], "x": [3, None, 1, 2, 5, 2, 2, None, 3, None],
            "s": ["b", "a", None, "c", "b", "c", "a", "b", "b", None],
            "ts": [NOON + timedelta(seconds=second) for second in seconds],
        }
    )  # fmt: skip


def session() -> wm.Session:
    made = wm.Session()
    made.stream("a", rows(), time="ts", lateness="3 seconds")
    made.aggregate("squares", Squares)
    made.aggregate("thrice", partial(Squares, 3), ["BIGINT"], "DOUBLE")
    made.aggregate("pairs", Weighted)
    return made


CALLS = """squares(x) AS q, thrice(x) AS t, squares(DISTINCT x) AS d, squares(x) FILTER (WHERE s = 'c') AS c,
pairs(x, s) AS p, pairs(x, s) FILTER (WHERE x > 1) AS f"""


@pytest.mark.parametrize(
    "place",
    [
        "a [RANGE 2 SECONDS] GROUP BY k",
        "a [ROWS 3]",
        "a [UNBOUNDED] GROUP BY k",
        "TUMBLE(a, 3 SECONDS) GROUP BY k, window_start, window_end",
        "HOP(a, 2 SECONDS, 4 SECONDS) GROUP BY k, window_start, window_end",
        "SESSION(a, 2 SECONDS PARTITION BY k) GROUP BY k, window_start, window_end",
        "(SELECT k, MAX(x) AS x, MAX(s) AS s FROM a [RANGE 3 SECONDS] GROUP BY k)",
        "a [RANGE 2 SECONDS] LEFT JOIN (SELECT k AS l FROM a) [RANGE 1 SECOND] AS b ON k = l GROUP BY k",
    ],
)
def test_they_are_aggregates_like_others_in_every_window(place: str) -> None:
    report = wm.check(session().sql(f"SELECT {CALLS} FROM {place}"))
    assert report.equal, str(report)


def test_they_go_with_over_where_functions_do() -> None:
    frame = "OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING)"
    report = wm.check(session().sql(f"SELECT squares(x) {frame} AS q, pairs(x, s) {frame} AS p FROM a"))
    assert report.equal, str(report)


def test_they_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    made = wm.Session()
    made.aggregate("squares", Squares)
    made.stream("a", schema=rows().schema, time="ts")
    query = made.sql("SELECT k, squares(x) AS q FROM a [RANGE 3 SECONDS] GROUP BY k")
    table = rows().sort_by("ts")

    def told(name: str, lives: int) -> list[str]:
        sink = tmp_path / f"{name}.json"
        for place in range(0, 10, 10 // lives):
            with query.start(checkpoint=tmp_path / name, sink=str(sink), save_every="1 millisecond") as run:
                run.push("a", table.slice(place, 10 // lives))
                if place + 10 // lives == 10:
                    run.finish()
        return sorted(line for part in sink.rglob("*.json") for line in part.read_text().splitlines())

    assert told("five", 5) == told("one", 1) != []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT no_add(x) AS v FROM a [UNBOUNDED]", "the aggregate no_add raised ValueError in add: no"),
        ("SELECT no_remove(x) AS v FROM a [RANGE 1 SECOND]", "the aggregate no_remove raised KeyError in remove"),
        ("SELECT no_result(x) AS v FROM a [UNBOUNDED]", "the aggregate no_result returned STRING, but it is declared"),
        (
            "SELECT k, not_five(x) AS v FROM a [UNBOUNDED] GROUP BY k",
            "raised ValueError in add: 5\nline 1: SELECT k, not_",
        ),
        ("SELECT k, not_five(x) AS v FROM a [UNBOUNDED] GROUP BY k, s", "^\nin the group 2, b\nhint: "),
        ("SELECT k, no_five(x) AS v FROM a [UNBOUNDED] GROUP BY s, k", "^\nin the group b, 2\nhint: "),
        ("SELECT no_making(x) AS v FROM a [UNBOUNDED]", "the aggregate no_making raised TypeError when it was made"),
        ("SELECT squares(x ORDER BY s) AS v FROM a [UNBOUNDED]", "ORDER BY in it would say nothing"),
        ("SELECT squares(s) AS v FROM a [UNBOUNDED]", "squares needs BIGINT as argument 1, not STRING"),
    ],
)
def test_what_is_wrong_is_told(text: str, said: str) -> None:
    class NoAdd(Squares):
        def add(self, x: int) -> None:
            raise ValueError("no")

    class NotFive(Squares):
        def add(self, x: int) -> None:
            fails_at_five(x)

    class NoRemove(Squares):
        def remove(self, x: int) -> None:
            raise KeyError("gone")

    class NoResult(Squares):
        def result(self) -> Any:
            return "many"

    class NoMaking(Squares):
        def __init__(self, factor: int) -> None: ...

    def fails_at_five(x: Any) -> int:
        if 5 in x.to_pylist():
            raise ValueError(5)
        return 1

    made = session()
    made.aggregate("no_add", NoAdd)
    made.aggregate("not_five", NotFive, returns="BIGINT")
    made.aggregate("no_five", fails_at_five, ["BIGINT"], "BIGINT")
    made.aggregate("no_remove", NoRemove)
    made.aggregate("no_result", NoResult, returns="BIGINT")
    made.aggregate("no_making", NoMaking)
    with pytest.raises(wm.WatersmeetError) as caught:
        made.sql(text).to_arrow()
    assert said in str(caught.value)
    assert "line 1: SELECT" in str(caught.value)


def test_what_is_no_such_class_is_refused() -> None:
    class Grows:
        def add(self, x: int) -> None: ...

    made = wm.Session()
    with pytest.raises(wm.CatalogError, match="aggregate grows has no method remove and no result"):
        made.aggregate("grows", Grows)
    with pytest.raises(wm.CatalogError, match="aggregate one is one object for all groups"):
        made.aggregate("one", Squares())  # type: ignore[arg-type]
    with pytest.raises(wm.CatalogError, match="the type of the result of aggregate untold is not said"):
        made.aggregate("untold", type("Untold", (Squares,), {"result": lambda self: 1}))
