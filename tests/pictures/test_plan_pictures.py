"""Plans as pictures: everything is inside what is drawn around it, nothing lies over another, no name breaks out."""

from __future__ import annotations

import datetime as dt
import json
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import watersmeet as wm
from tests.effort import random_cases
from tests.pictures.reading import SVG, Area, boxes, parsed, texts, whole
from tests.plans.test_explain import CATALOG, QUERIES, name_of
from watersmeet.cli.commands import app
from watersmeet.errors import OptionError
from watersmeet.hosts.local.host import LocalHost
from watersmeet.pictures.draw_tree import tree_svg
from watersmeet.pictures.tree import NodeText
from watersmeet.plan.query import Plan
from watersmeet.session import Query
from watersmeet.sql import bind

AT = dt.datetime(2026, 1, 1, 12)
ROWS = pa.table({"k": [1], "ts": [AT]})
HOSTILE = '</svg><script>alert("1")</script>'


def check_places(svg: str) -> None:
    """No two boxes meet, text stands inside its box, no label lies on a box or another, and all is in the picture."""
    root = parsed(svg)
    found = boxes(root)
    for (one, _), (other, _) in combinations(found, 2):
        assert not one.meets(other)
    for area, lines in found:
        assert all(area.holds(line) for line in lines)
        assert not any(one.meets(other) for one, other in combinations(lines, 2))
    inside = {line for _, lines in found for line in lines}
    outside = [area for _, area in texts(root) if area not in inside]
    for label in outside:
        assert not any(area.meets(label) for area, _ in found)
    assert not any(one.meets(other) for one, other in combinations(outside, 2))
    assert all(whole(root).holds(area) for area in (*(area for area, _ in found), *outside, *inside))


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_every_kind_of_plan_is_drawn_without_overlaps(path: Path) -> None:
    query = Query(bind(path.read_text(), CATALOG))
    svg = query.explain(format="svg")
    check_places(svg)
    assert svg == query.explain(format="svg")


words = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    [HOSTILE, "a" * 300, "流" * 40, "\u202eabc", "\ufdfd", "&amp;", "\x00", "\ud800", "x → y", "  "]
)
boxes_told = st.builds(
    NodeText,
    st.sampled_from(["stream", "table", "join", "other"]),
    words,
    st.lists(words, max_size=4).map(tuple),
    st.lists(words, max_size=4).map(tuple),
    words,
    words,
)
trees = st.recursive(
    boxes_told,
    lambda below: st.builds(
        lambda told, children: NodeText(
            told.kind, told.title, told.lines, told.remarks, told.above, told.below, tuple(children)
        ),
        boxes_told,
        st.lists(below, min_size=1, max_size=8),
    ),
    max_leaves=12,
)


@random_cases(60)
@given(trees, st.lists(words, max_size=3))
def test_any_tree_of_any_words_has_its_text_in_its_boxes(tree: NodeText, notes: list[str]) -> None:
    svg = tree_svg("a tree", tree, notes)
    svg.encode()  # what stands alone of a pair cannot be written
    check_places(svg)
    assert svg == tree_svg("a tree", tree, notes)


def test_no_text_is_lost_where_lines_are_folded() -> None:
    name = "".join(chr(ord("a") + i % 26) for i in range(200))
    drawn = "".join(text for text, _ in texts(parsed(tree_svg("t", NodeText("stream", name)))))
    assert drawn == name


def hostile_session() -> wm.Session:
    made = wm.Session()
    made.stream(HOSTILE, pa.table({"k": [1], HOSTILE: ["x"], "ts": [AT]}), time="ts")
    made.stream("b", ROWS, time="ts")
    return made


def hostile_query() -> Query:
    name = HOSTILE.replace('"', '""')
    return hostile_session().sql(
        f'SELECT h."{name}" FROM "{name}" AS h, b WHERE h.k = b.k AND h."{name}" <> \'</style><b>\' WINDOW = 5 SECONDS'
    )


def test_names_cannot_break_out_of_a_picture() -> None:
    query = hostile_query()
    for told in (query.explain(format="svg"), query.explain(format="html"), query._repr_html_()):
        assert "<script" not in told
        assert "<b>'" not in told
    assert HOSTILE in "".join(text for text, _ in texts(parsed(query.explain(format="svg"))))


def test_a_picture_says_in_words_what_it_shows() -> None:
    root = parsed(hostile_query().explain(format="svg"))
    assert root.attrib["role"] == "img"
    assert [one.tag.rpartition("}")[2] for one in root][:2] == ["title", "desc"]
    described = root[1].text or ""
    assert "h.k = b.k" in described
    assert "stream b" in described


def test_rates_windows_and_routes_are_on_the_picture() -> None:
    query = Query(bind("SELECT a.k FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k", CATALOG))
    told = [text for text, _ in texts(parsed(query.explain(format="svg")))]
    assert {"100/s", "10/s", "[RANGE 30 s]", "[RANGE 1 min]", "- a -> b, by hash", "about 3,000 rows, declared"} <= {
        *told
    }


class FourBuckets(LocalHost):
    """Says of plans what Spark's host would."""

    name = "spark"

    def layout(self, plan: Plan) -> str:
        return "on Spark: 4 buckets (by a.k)\n  grid: 4 by a.k\n"


def test_below_a_plan_on_spark_stands_how_its_rows_are_spread() -> None:
    query = Query(bind("SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS", CATALOG), FourBuckets())
    svg = query.explain(format="svg")
    check_places(svg)
    told = [text for text, _ in texts(parsed(svg))]
    assert told[-2:] == ["on Spark: 4 buckets (by a.k)", "grid: 4 by a.k"]


@pytest.mark.parametrize("path", QUERIES[::9], ids=name_of)
def test_programs_are_told_the_same_places(path: Path) -> None:
    query = Query(bind(path.read_text(), CATALOG))
    drawing = json.loads(query.explain(format="json"))["drawing"]
    root = parsed(query.explain(format="svg"))
    assert [[line["text"] for line in box["lines"]] for box in drawing["boxes"]] == [
        [one.text for one in group.iter(f"{SVG}text")] for group in root.iter(f"{SVG}g")
    ]
    placed = [Area(box["x"], box["y"], box["width"], box["height"]) for box in drawing["boxes"]]
    assert not any(one.meets(other) for one, other in combinations(placed, 2))
    rated = [edge["name"] for edge in drawing["edges"] if "rate" in edge]
    assert rated[-1] is None
    assert all(Area(0, 0, drawing["width"], drawing["height"]).holds(area) for area in placed)


def test_a_notebook_shows_plans_as_pictures() -> None:
    made = wm.Session()
    made.stream("s", ROWS, time="ts")
    query = made.sql("SELECT k FROM s")
    told = query.explain()
    assert repr(told) == told.rstrip("\n")
    html = told._repr_html_()
    assert html is not None
    assert "<svg" in html
    assert "<pre>select: s.k" in html
    assert "<svg" in query._repr_html_()
    assert "<svg" in made.sql("EXPLAIN SELECT k FROM s")._repr_html_()
    assert query.explain(format="json")._repr_html_() is None


def test_a_format_that_is_not_known_is_refused() -> None:
    made = wm.Session()
    made.stream("s", ROWS, time="ts")
    with pytest.raises(OptionError, match="cannot be told as 'png'"):
        made.sql("SELECT k FROM s").explain(format="png")


SCRIPT = """
CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (path = 's.csv', time = 'ts');
CREATE SINK one WITH (sink = 'console') AS SELECT k FROM s;
CREATE SINK two WITH (sink = 'console') AS SELECT x.k FROM s x, s y WHERE x.k = y.k WINDOW = 5 SECONDS;
"""


def test_the_command_writes_pictures(tmp_path: Path) -> None:
    script, out = tmp_path / "q.sql", tmp_path / "out.svg"
    script.write_text(SCRIPT)

    def explained(*options: str) -> str:
        ended = CliRunner().invoke(app, ["explain", str(script), *options], catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    assert explained("--format", "svg", "--query", "TWO", "-o", str(out)) == ""
    check_places(out.read_text(encoding="utf-8"))
    assert len(boxes(parsed(explained("--format", "svg", "--query", "one")))) == 2
    page = explained("--format", "html")
    assert page.count("<svg") == 3  # of the script, and of each query
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "-- one" in explained()
    assert "-- one" not in explained("--query", "two")
    whole = explained("--format", "svg")
    check_places(whole)
    assert "s is read once for" in " ".join(text for text, _ in texts(parsed(whole)))


def test_areas_are_compared_rightly() -> None:
    assert Area(0, 0, 10, 10).meets(Area(9, 9, 5, 5))
    assert not Area(0, 0, 10, 10).meets(Area(10, 0, 5, 5))
