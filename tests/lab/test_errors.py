"""`watersmeet lab errors`: every measure of DGR03 between two files of results, and what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.errors import DataError, WatersmeetError
from watersmeet.lab.cli import app
from watersmeet.lab.errors import compare
from watersmeet.lab.papers.dgr03.streams import Pair
from watersmeet.papers.shedding import measures
from watersmeet.papers.shedding.measures import archive_metric
from watersmeet.papers.shedding.simulate import simulate

EXACT = pa.table({"a": [1, 1, 2, 3, 3], "b": [7, 8, 7, 9, 9]})
FOUND = EXACT.slice(0, 4)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    pq.write_table(FOUND, tmp_path / "found.parquet")
    pa.csv.write_csv(EXACT, tmp_path / "exact.csv")
    return [str(tmp_path / "found.parquet"), str(tmp_path / "exact.csv")]


def told(*arguments: str) -> str:
    shown = CliRunner().invoke(app, ["errors", *arguments])
    if shown.exception is not None and not isinstance(shown.exception, SystemExit):
        raise shown.exception
    return shown.output


def test_all_measures_are_told_of_two_files(files: list[str]) -> None:
    seen = json.loads(told(*files, "--members", "a,b", "--format", "json"))
    assert (seen["x_rows"], seen["y_rows"], seen["columns"]) == (4, 5, ["a", "b"])
    assert (seen["matching"], seen["symmetric_difference"], seen["overlap"]) == (4, 1, 1.0)
    assert seen["dice"] == pytest.approx(8 / 9)
    assert seen["jaccard"] == pytest.approx(4 / 5)
    assert seen["cosine"] == pytest.approx(np.sqrt(4 / 5))
    assert seen["cosine_as_printed"] == pytest.approx(4 / 3)
    assert (seen["earth_movers_distance"], seen["match_and_compare"]) == (0.0, 0.0)
    assert seen["incomplete_rows"] == 2  # the rows 3 and 9
    assert not seen["left_out"]
    text = told(*files)
    assert "symmetric difference" in text
    assert "--members" in text


@pytest.mark.parametrize("seed", range(5))
def test_measures_of_tables_are_those_of_bags(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (pa.table({"k": rng.integers(0, 6, n), "v": rng.integers(0, 4, n).astype(float)}) for n in (20, 30))
    seen = compare(x, y)
    for name in ("matching", "symmetric_difference", "dice", "jaccard", "cosine", "overlap"):
        assert getattr(seen, name) == pytest.approx(getattr(measures, name)(x, y)), name
    assert seen.cosine_as_printed == pytest.approx(measures.cosine(x, y, as_printed=True))
    # What both have is set aside before the rest is moved; the work is the same.
    assert seen.earth_movers_distance == pytest.approx(measures.earth_movers_distance(x, y))
    assert seen.match_and_compare == pytest.approx(measures.match_and_compare(x, y))


def test_incomplete_rows_are_those_of_the_archive_metric() -> None:
    rng = np.random.default_rng(3)
    pair = Pair(*(pa.array(rng.integers(0, 5, 60)) for _ in range(2)), window=8)
    until = simulate(pair.arrivals, "prob", 4)
    both = [(i, j) for i, r in enumerate(pair.r.to_pylist()) for j, s in enumerate(pair.s.to_pylist())
            if r == s and abs(i - j) < 8 and max(i, j) >= 16]  # fmt: skip
    kept = [(i, j) for i, j in both if i == j or until[2 * min((i, j)) + (j < i)] >= max(i, j)]
    x, y = (pa.table({"i": [i for i, _ in some], "j": [j for _, j in some]}) for some in (kept, both))
    assert compare(x, y, members=["i", "j"]).incomplete_rows == archive_metric(pair.arrivals, until) > 0


def test_answers_of_queries_are_compared_as_they_were_written(tmp_path: Path) -> None:
    """A folder of Parquet against JSON lines, with text, times, NULLs and the order of columns exchanged."""
    rows = {"name": ["x", None, "y"], "at": [datetime(2026, 1, 1, 0, 0, s) for s in range(3)], "v": [0.0, -0.0, 2.5]}
    (tmp_path / "folder").mkdir()
    for i in range(3):
        pq.write_table(pa.table(rows).slice(i, 1), tmp_path / "folder" / f"{i}.parquet")
    (tmp_path / "folder" / "_notes.txt").write_text("not rows")
    (tmp_path / "rows.jsonl").write_text(
        '{"v": 0.0, "name": "x", "at": "2026-01-01 00:00:00"}\n{"v": 0.0, "name": null, "at": "2026-01-01 00:00:01"}\n'
    )
    seen = json.loads(
        told(str(tmp_path / "rows.jsonl"), str(tmp_path / "folder"), "--columns", "name,v", "--format", "json")
    )
    assert (seen["matching"], seen["symmetric_difference"]) == (2, 1)
    assert seen["earth_movers_distance"] == 0.0  # a part of the other, whatever a distance may be
    assert "name is string" in seen["left_out"]["match_and_compare"]


def test_times_are_apart_by_seconds() -> None:
    x, y = (pa.table({"at": pa.array([us], pa.timestamp("us"))}) for us in (0, 2_500_000))
    assert compare(x, y).earth_movers_distance == 2.5


def test_a_query_in_bounded_memory_has_the_recall_it_tells() -> None:
    session = wm.Session()
    rng = np.random.default_rng(1)
    for name in "ab":
        at = pa.array(1_000_000 * np.arange(300), pa.timestamp("us"))
        session.stream(name, pa.table({"k": rng.integers(0, 9, 300), "id": np.arange(300), "ts": at}), time="ts")
    sql = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 60 SECONDS"
    bounded = session.sql(f"{sql} OPTIONS (memory = '40 rows')")
    seen = compare(bounded.to_arrow(), session.sql(sql).to_arrow(), members=["x", "y"])
    assert seen.jaccard == pytest.approx(bounded.metrics()["recall"])
    assert seen.jaccard < 1
    assert seen.incomplete_rows == bounded.metrics()["incomplete_rows"]


def test_distances_of_many_rows_are_left_out_and_that_is_told() -> None:
    x, y = pa.table({"v": np.arange(300.0)}), pa.table({"v": np.arange(400.0) + 0.5})
    seen = compare(x, y, most_pairs=1000)
    assert seen.earth_movers_distance is None
    assert "--pairs 120000" in seen.left_out["earth_movers_distance"]
    assert "300 by 400 rows" in seen.left_out["match_and_compare"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["found.parquet", "exact.csv", "--columns", "z"], "the first answer has no column 'z'; it has a, b"),
        (["found.parquet", "wide.csv"], "has a column 'c' that the first has not"),
        (["found.parquet", "text.csv"], "'a' cannot be compared: it is of types int64 and string"),
        (["found.parquet", "none.csv"], "there is no "),
        (["found.parquet", "notes.txt"], "no format that can be read"),
        (["found.parquet", "broken.parquet"], "cannot be read"),
        (["found.parquet", "exact.csv", "--members", "q"], "'q' is no column that is compared"),
        (["words.csv", "words.csv", "--distance-by", "w"], "says no distance: w is string"),
        (["lists.parquet", "lists.parquet"], "cannot be compared"),
    ],
)
def test_what_cannot_be_compared_is_told(files: list[str], tmp_path: Path, arguments: list[str], message: str) -> None:
    pa.csv.write_csv(EXACT.append_column("c", EXACT["a"]), tmp_path / "wide.csv")
    pa.csv.write_csv(pa.table({"a": ["x"], "b": [1]}), tmp_path / "text.csv")
    pa.csv.write_csv(pa.table({"w": ["x"]}), tmp_path / "words.csv")
    pq.write_table(pa.table({"l": [[1], [2]]}), tmp_path / "lists.parquet")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "broken.parquet").write_text("x")
    with pytest.raises(WatersmeetError, match=message):
        told(*(str(tmp_path / one) if "." in one else one for one in arguments))


def test_empty_answers_are_compared() -> None:
    none = EXACT.slice(0, 0)
    seen = compare(none, EXACT)
    assert (seen.jaccard, seen.overlap, seen.earth_movers_distance, seen.match_and_compare) == (0.0, 0.0, 0.0, None)
    assert compare(none, none).jaccard == 1.0
    with pytest.raises(DataError, match="no columns"):
        compare(pa.table({}), pa.table({}))
