"""Timelines: what is drawn is what the engine gave, rows are held when they meet, and what is left out is said."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import watersmeet as wm
from tests.effort import random_cases
from tests.pictures.golden_rows import catalog_with_rows
from tests.pictures.reading import SVG, parsed, texts, whole
from tests.plans.test_explain import QUERIES, name_of
from watersmeet.cli.commands import app
from watersmeet.errors import OptionError, SinkError, UnsupportedError
from watersmeet.session import Query
from watersmeet.sql import bind
from watersmeet.timeline import Timeline

NOON = dt.datetime(2026, 1, 1, 12)
EPOCH = dt.datetime(1970, 1, 1)
SECOND = dt.timedelta(seconds=1)
SECOND_US = 1_000_000

Keyed = list[tuple[int, int]]  # of each row its key and its second


def table(rows: Keyed) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(1, len(rows) + 1), pa.int64()),
            "k": pa.array([key for key, _ in rows], pa.int64()),
            "ts": pa.array([NOON + at * SECOND for _, at in rows], pa.timestamp("us")),
        }
    )


def session(**streams: Keyed) -> wm.Session:
    made = wm.Session()
    for name, rows in streams.items():
        made.stream(name, table(rows), time="ts")
    return made


def drawn_matches(timeline: Timeline, *, lost: bool = False) -> Counter[tuple[int | None, ...]]:
    """Of each match the numbers of its rows, as the picture has them."""
    found = [one for one in parsed(timeline.svg).iter(f"{SVG}g") if one.get("data-rows") is not None]
    return Counter(
        tuple(None if text == "-" else int(text) for text in one.attrib["data-rows"].split())
        for one in found
        if (one.get("data-lost") is not None) == lost
    )


def check_story(timeline: Timeline) -> None:
    """Everybody who met was there at that moment, and all text is inside the picture, none over another's."""
    story = timeline.story
    # A row without a partner is given when none can come any more, after its window.
    for match in (one for one in story.matches if sum(number is not None for number in one.rows) > 1):
        for lane, number in zip(story.lanes, match.rows, strict=True):
            if number is not None and not lane.is_table:
                (row,) = [one for one in lane.rows if one.number == number]
                assert row.fate == "held"
                assert row.since_us is not None
                assert row.since_us <= match.at_us
                assert row.until_us is None or match.at_us <= row.until_us
    root = parsed(timeline.svg)
    areas = [area for _, area in texts(root)]
    assert all(whole(root).holds(area) for area in areas)
    assert not any(one.meets(other) for one, other in combinations(areas, 2))


WINDOWED = [
    "SELECT a.id AS x, b.id AS y FROM a [RANGE 4 SECONDS], b [RANGE 7 SECONDS] WHERE a.k = b.k",
    "SELECT a.id AS x, b.id AS y FROM a [RANGE 4 SECONDS], b [RANGE 7 SECONDS] WHERE a.k = b.k "
    "OPTIONS (boundary = 'half_open')",
    "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k DWINDOW (a, b) = 6 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a [ROWS 2], b [ROWS 3] WHERE a.k <= b.k",
    "SELECT a.id AS x, b.id AS y FROM a [PARTITION BY k ROWS 2], b [RANGE 5 SECONDS] WHERE a.k = b.k",
    "SELECT a.id AS x, b.id AS y FROM a [RANGE 6 SECONDS SLIDE 3 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "SELECT a.id AS x, b.id AS y FROM a [ROWS 4 SLIDE 2], b [RANGE 4 SECONDS] WHERE a.k = b.k",
    "SELECT a.id AS x, b.id AS y FROM a [UNBOUNDED], b [NOW] WHERE a.k = b.k AND b.id > 1",
    "SELECT x.id AS x, y.id AS y FROM a x, a y WHERE x.k = y.k AND x.id <> y.id WINDOW = 3 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
    "SELECT a.id AS x, b.id AS y FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
    "WINDOW (a, b) = 5 SECONDS AND WINDOW (b, c) = 3 SECONDS",
    "SELECT a.id AS x, b.id AS y FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
    "WINDOW PATH (a, b, c) = (4 SECONDS, 4 SECONDS)",
]
some = random_cases(8)
rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=12)


@pytest.mark.parametrize("sql", WINDOWED)
@some
@given(a=rows, b=rows, c=rows)
def test_the_matches_of_a_picture_are_those_of_the_engine(sql: str, a: Keyed, b: Keyed, c: Keyed) -> None:
    query = session(a=a, b=b, c=c).sql(sql)
    timeline = query.timeline(rows=100)
    drawn = Counter({(key[0], key[1]): 0 for key in drawn_matches(timeline)})
    for key, count in drawn_matches(timeline).items():
        drawn[key[0], key[1]] += count
    assert drawn == Counter((row["x"], row["y"]) for row in query)
    check_story(timeline)


CHANGING = [
    "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k",
    "SELECT DISTINCT k FROM a [ROWS 3]",
    "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k GROUP BY a.k",
    "SELECT k FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 5 SECONDS]",
    "SELECT k FROM a [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k",
]


@pytest.mark.parametrize("sql", CHANGING)
@some
@given(a=rows, b=rows)
def test_a_changing_answer_is_drawn_from_when_to_when_it_holds(sql: str, a: Keyed, b: Keyed) -> None:
    query = session(a=a, b=b).sql(sql)
    timeline = query.timeline(rows=100)
    log: Counter[tuple[str, int, str]] = Counter()
    for row in query.to_arrow().to_pylist():
        op, at = row.pop("_op"), row.pop("_ts")
        log[op, (at - EPOCH) // dt.timedelta(microseconds=1), ", ".join(f"{n} {v}" for n, v in row.items())] += 1
    drawn: Counter[tuple[str, int, str]] = Counter()
    for one in parsed(timeline.svg).iter(f"{SVG}g"):
        if one.get("class") == "wm-in" and one.get("data-values") is not None:
            drawn["+", int(one.attrib["data-since-us"]), one.attrib["data-values"]] += 1
            if one.get("data-until-us") is not None:
                drawn["-", int(one.attrib["data-until-us"]) + 1, one.attrib["data-values"]] += 1
    assert drawn == log


HOLDING = [
    "[RANGE 5 SECONDS]",
    "[ROWS 3]",
    "[PARTITION BY k ROWS 2]",
    "[RANGE 6 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 6 SECONDS SLIDE 4 SECONDS OFFSET 1 SECOND]",
    "[ROWS 4 SLIDE 2]",
    "[PARTITION BY k ROWS 3 SLIDE 2]",
    "[LANDMARK '2026-01-01 12:00:04' EVERY 7 SECONDS]",
    "[UNBOUNDED]",
]


@pytest.mark.parametrize("window", HOLDING)
@pytest.mark.parametrize("boundary", ["closed", "half_open"])
@some
@given(a=rows)
def test_a_bar_is_exactly_as_long_as_the_engine_holds_a_row(window: str, boundary: str, a: Keyed) -> None:
    sql = f"SELECT DISTINCT id FROM a {window} OPTIONS (boundary = '{boundary}')"
    story = session(a=a).sql(sql).timeline(rows=100).story
    held = {
        f"id {row.number}": (row.since_us, row.until_us)
        for row in story.lanes[0].rows
        # One that others push out at its own instant is never there.
        if row.since_us is not None and (row.until_us is None or row.until_us >= row.since_us)
    }
    assert held == {one.values: (one.since_us, one.until_us) for one in story.answers}


COMPLETE = [
    "SELECT k, COUNT(*) AS n FROM TUMBLE(a, 5 SECONDS) GROUP BY window_start, window_end, k",
    "SELECT window_end AS e, COUNT(*) AS n FROM HOP(a, 3 SECONDS, 6 SECONDS) GROUP BY window_start, window_end",
    "SELECT k, COUNT(*) AS n FROM SESSION(a, 3 SECONDS PARTITION BY k) GROUP BY window_start, window_end, k",
    "SELECT k, SUM(id) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM a",
    "SELECT ISTREAM DISTINCT k FROM a [RANGE 4 SECONDS]",
    "SELECT k, ts FROM a WHERE k > 0",
    "SELECT x.k AS k, b.id AS i FROM (SELECT ISTREAM k FROM a [RANGE 2 SECONDS]) [RANGE 3 SECONDS] x, "
    "b [RANGE 3 SECONDS] WHERE x.k = b.k",
]


@pytest.mark.parametrize("sql", COMPLETE)
@some
@given(a=rows, b=rows)
def test_every_row_that_is_given_once_is_drawn_once(sql: str, a: Keyed, b: Keyed) -> None:
    query = session(a=a, b=b).sql(sql)
    told = Counter(one.values for one in query.timeline(rows=100).story.answers)
    given_rows = [{n: v for n, v in row.items() if n != "_ts"} for row in query]
    assert told == Counter(", ".join(f"{n} {v}" for n, v in row.items()) for row in given_rows)


GOLDEN = catalog_with_rows()


def shown_by(path: Path) -> Any:
    """Joins of the papers' are compiled first, which takes longer than all of the others."""
    return pytest.param(path, id=name_of(path), marks=[pytest.mark.lab] if "join = '" in path.read_text() else [])


@pytest.mark.parametrize("path", [shown_by(path) for path in QUERIES if name_of(path) != "arrival"][::2])
def test_every_kind_of_query_has_a_timeline(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one writes an archive
    query = Query(bind(path.read_text(), GOLDEN))
    timeline = query.timeline(rows=100)
    root = parsed(timeline.svg)
    areas = [area for _, area in texts(root)]
    assert all(whole(root).holds(area) for area in areas)
    assert not any(one.meets(other) for one, other in combinations(areas, 2))
    if query.plan.kind == "rows":
        assert len(timeline.story.answers) == query.to_arrow().num_rows


def two_streams() -> wm.Session:
    return session(a=[(1, 0), (2, 3), (1, 9)], b=[(1, 4), (2, 8), (1, 30)])


JOIN = "SELECT a.id AS x, b.id AS y FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"


def test_a_part_of_a_run_says_what_it_leaves_out() -> None:
    query = two_streams().sql(JOIN)
    few = query.timeline(rows=3)
    assert drawn_matches(few) == Counter({(1, 1): 1})
    assert few.story.notes == (
        "3 of 6 rows are drawn; rows, since and until choose others",
        "2 of 3 matches are left out",
    )
    assert query.timeline(rows=1).story.notes[0] == "1 of 6 rows is drawn; rows, since and until choose others"
    later = query.timeline(since="2026-01-01 12:00:03", until=NOON + 9 * SECOND)
    assert drawn_matches(later) == Counter({(2, 2): 1, (3, 1): 1})
    assert "2 of 6" not in str(query.timeline())


def test_rows_that_met_are_picked_where_none_of_the_first_did() -> None:
    """A hundred rows that meet nobody come first."""
    lonely = [(k, k) for k in range(1, 101)]
    query = session(a=[*lonely, (7, 200), (8, 203)], b=[(7, 204), (1, 205), (8, 206)]).sql(JOIN)
    shown = query.timeline(rows=4)
    check_story(shown)
    assert drawn_matches(shown) == Counter({(101, 1): 1, (102, 3): 1})
    assert shown.story.notes[0] == (
        "4 of 105 rows are drawn, those of the first matches and others from there on; rows, since and until choose "
        "others"
    )
    assert [row.number for row in query.timeline(rows=5).story.lanes[1].rows] == [1, 2, 3], "and one that met nobody"
    assert drawn_matches(query.timeline(rows=2)) == Counter({(101, 1): 1})
    asked = query.timeline(rows=4, until="2026-01-01 12:01:00")
    assert (drawn_matches(asked), [row.number for row in asked.story.lanes[0].rows]) == (Counter(), [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "1 or more, not 0"),
        ({"since": "noon"}, "since 'noon' is no time"),
        ({"since": "2026-01-02", "until": "2026-01-01"}, "cannot end at"),
    ],
)
def test_a_part_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        two_streams().sql(JOIN).timeline(**options)


def test_late_rows_are_marked_and_meet_nobody() -> None:
    made = wm.Session()
    made.stream("a", table([(1, 0), (1, 10), (1, 3)]), time="ts", read="arrival")
    timeline = made.sql("SELECT x.id FROM a x, a y WHERE x.k = y.k WINDOW = 5 SECONDS").timeline()
    assert [row.fate for row in timeline.story.lanes[0].rows] == ["held", "late", "held"]
    assert set(drawn_matches(timeline)) == {(1, 1), (2, 2)}
    assert "too late, left out" in str(timeline)
    check_story(timeline)


def test_rows_that_conditions_and_duplicates_leave_out_are_hollow() -> None:
    made = two_streams()
    kept = made.sql("SELECT a.id FROM a, b WHERE a.k = b.k AND a.id > 1 WINDOW = 5 SECONDS").timeline()
    assert [row.fate for row in kept.story.lanes[0].rows] == ["other", "held", "held"]
    first = made.sql("SELECT id FROM DEDUPLICATE(a, 20 SECONDS PARTITION BY k)").timeline()
    assert [row.fate for row in first.story.lanes[0].rows] == ["held", "held", "duplicate"]
    assert [one.values for one in first.story.answers] == ["id 1", "id 2"]


def test_what_bounded_memory_cost_is_drawn_too() -> None:
    made = session(a=[(key % 7, key) for key in range(20)], b=[(key % 7, key + 3) for key in range(20)])
    sql = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 15 SECONDS"
    exact = Counter((row["x"], row["y"]) for row in made.sql(sql))
    query = made.sql(sql + " OPTIONS (memory = '4 rows', shed = 'rand')")
    timeline = query.timeline(rows=100)
    given_rows = Counter((row["x"], row["y"]) for row in query)
    assert drawn_matches(timeline) == given_rows
    assert drawn_matches(timeline, lost=True) == exact - given_rows
    assert sum((exact - given_rows).values()) > 0
    assert timeline.story.forgotten
    assert "bounded memory let go of" in str(timeline)
    assert "carry their numbers" not in str(timeline)
    assert "carry their numbers" in str(made.sql(sql + " OPTIONS (memory = '4 kB')").timeline())


def test_rows_of_tables_are_drawn_where_they_are_met() -> None:
    made = session(a=[(1, 0), (2, 1)])
    made.table("names", pa.table({"k": [2, 1, 5], "name": ["two", "one", "five"]}))
    timeline = made.sql("SELECT a.id, n.name FROM a, names n WHERE a.k = n.k").timeline()
    assert drawn_matches(timeline) == Counter({(1, 2): 1, (2, 1): 1})
    assert [row.number for row in timeline.story.lanes[1].rows] == [1, 2]


HOSTILE = '</svg><script>alert("1")</script>'


def test_hostile_names_and_values_stay_text() -> None:
    made = wm.Session()
    quoted = HOSTILE.replace('"', '""')
    rows = pa.table({HOSTILE: [HOSTILE, "\x00\u202e"], "ts": [NOON, NOON]})
    made.stream(HOSTILE, rows, time="ts")
    timeline = made.sql(f'SELECT x."{quoted}" FROM "{quoted}" AS x, "{quoted}" AS y WINDOW = 5 SECONDS').timeline()
    assert "<script" not in timeline.svg
    assert "<script" not in timeline.html
    assert "<script" not in timeline._repr_html_()
    parsed(timeline.svg)


def test_a_timeline_is_shown_saved_and_always_the_same(tmp_path: Path) -> None:
    timeline = two_streams().sql(JOIN).timeline()
    assert timeline.svg == two_streams().sql(JOIN).timeline().svg
    assert "<svg" in timeline._repr_html_()
    timeline.save(tmp_path / "run.svg")
    timeline.save(str(tmp_path / "run.html"))
    assert (tmp_path / "run.svg").read_text() == timeline.svg
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(OptionError, match=r"cannot be written as 'run\.png'"):
        timeline.save(tmp_path / "run.png")
    with pytest.raises(SinkError, match=r"nowhere/run\.svg cannot be written: .*No such file"):
        timeline.save(tmp_path / "nowhere" / "run.svg")
    root = parsed(timeline.svg)
    assert root.attrib["role"] == "img"
    assert "a 1, b 1 met" in (root[1].text or "")


def test_nothing_at_all_is_a_picture_too() -> None:
    check_story(session(a=[], b=[]).sql(JOIN).timeline())
    check_story(session(a=[(1, 0)], b=[]).sql(JOIN).timeline())


def test_a_stream_without_times_of_its_own_cannot_be_drawn() -> None:
    made = wm.Session()
    made.stream("a", pa.table({"k": [1]}), time="arrival")
    with pytest.raises(UnsupportedError, match="the moment at which its rows arrive"):
        made.sql("SELECT k FROM a").timeline()


def test_the_command_draws_a_run(tmp_path: Path) -> None:
    import pyarrow.csv as csv

    for name in ("a", "b"):
        csv.write_csv(table([(1, 0), (2, 3)]), tmp_path / f"{name}.csv")
    script, out = tmp_path / "q.sql", tmp_path / "out.html"
    columns = "(id BIGINT, k BIGINT, ts TIMESTAMP)"
    script.write_text(
        "".join(
            f"CREATE STREAM {name} {columns} WITH (path = '{tmp_path}/{name}.csv', time = 'ts');" for name in ("a", "b")
        )
        + JOIN
    )

    def drawn(*options: str) -> str:
        ended = CliRunner().invoke(app, ["timeline", str(script), *options], catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    assert len([one for one in parsed(drawn()).iter(f"{SVG}g") if one.get("data-rows")]) == 2
    assert drawn("-o", str(out)) == ""
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert "a 1, b 1 met" in drawn("--format", "text", "--until", "2026-01-01 12:00:01")
    with pytest.raises(OptionError, match=r"a timeline cannot be written as '\.png'"):
        drawn("-o", str(tmp_path / "out.png"))
    drawn("-o", str(tmp_path / "out.picture"), "--format", "svg")
