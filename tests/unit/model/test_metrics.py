"""One table of metrics: each is one line, from which both hosts, the listener and the documentation follow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from watersmeet.model import metric as kinds
from watersmeet.model.metric import HELD, Kind
from watersmeet.runtime.metrics import BUCKET_METRICS, METRICS, BucketMetrics, Metrics

ROOT = Path(__file__).parents[3]


# ---- the table ------------------------------------------------------------------------------------------------------


def test_every_number_of_a_run_is_a_line_of_the_table() -> None:
    assert set(METRICS) == {one.name for one in fields(Metrics)}
    assert set(BUCKET_METRICS) == {one.name for one in fields(BucketMetrics)}
    assert set(BUCKET_METRICS) <= set(METRICS)


def test_no_two_metrics_travel_in_the_same_column() -> None:
    columns = [column for one in METRICS.values() for column in one.columns]
    assert len(columns) == len(set(columns))


def test_a_metric_without_a_default_of_its_own_starts_as_its_kind_does() -> None:
    fresh = Metrics()
    own = {"still_for_s", "waits_for_rows", "watermark_us", "delays", "first_bad"}
    assert {name for name, one in METRICS.items() if getattr(fresh, name) != one.kind.empty()} == own
    assert fresh.buckets is not Metrics().buckets


KINDS = {name: one for name, one in vars(kinds).items() if isinstance(one, Kind)}
ONE_AFTER_THE_OTHER = {
    "COUNT": (3, 4, 7, 7), "SECONDS": (0.5, 0.25, 0.75, 0.75), "KNOWN": (3, 4, 7, 7), "GAUGE": (3, 4, 7, 4),
    "LATEST": ("a", "b", "b", "b"), "FLAG": (True, False, True, True), "TEXT": ("x", "", "x", "x"),
    "BY_NAME": ({"a": 1}, {"a": 2, "b": 3}, {"a": 3, "b": 3}, {"a": 3, "b": 3}),
    "BY_NAME_NOW": ({"a": 1}, {"b": 3}, {"a": 1, "b": 3}, {"b": 3}),
    "LARGEST_BY_NAME": ({"a": 1}, {"a": 2, "b": 3}, {"a": 3, "b": 3}, {"a": 3, "b": 3}),
    "MOST_BY_NAME": ({"a": 5}, {"a": 2, "b": 3}, {"a": 5, "b": 3}, {"a": 5, "b": 3}),
    "LIST": ([1], [2], [1, 2], [1, 2]),
    "WORK": ({"n": 1, "n" + HELD: 5}, {"n": 2, "n" + HELD: 4}, {"n": 3, "n" + HELD: 9}, {"n": 3, "n" + HELD: 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_values_come_together_as_their_kind_says(name: str) -> None:
    """Of two buckets in one batch, and of one batch and the next."""
    one, other, beside, after = ONE_AFTER_THE_OTHER[name]
    assert KINDS[name].beside(one, other) == beside
    assert KINDS[name].after(one, other) == after


@pytest.mark.parametrize("name", [name for name, one in KINDS.items() if one.to_columns is not None])
def test_what_travels_as_numbers_arrives_as_it_was(name: str) -> None:
    kind = KINDS[name]
    values = [kind.empty(), *ONE_AFTER_THE_OTHER[name][:2], *([None] if name == "KNOWN" else [])]
    assert kind.to_columns is not None
    assert [kind.from_columns(*kind.to_columns(value)) for value in values] == values


def test_a_sum_with_a_part_that_is_not_known_is_not_known() -> None:
    metrics = Metrics()
    metrics.add({"lost_results": 3, "recall_is_estimate": True})
    assert (metrics.lost_results, metrics.recall_is_estimate) == (3, True)
    metrics.add({"lost_results": None})
    metrics.add({"lost_results": 3, "recall_is_estimate": True})
    assert (metrics.lost_results, metrics.recall_is_estimate, metrics.recall) == (None, False, None)


def test_what_is_not_about_every_query_is_told_only_if_there_is_any() -> None:
    told = set(Metrics().as_dict())
    assert told == {name for name, one in METRICS.items() if not one.if_any} | {"exact_results", "recall"}
    assert set(Metrics(queue_shed_rows=1, lost_between=(0, 2)).as_dict()) == told | {
        "queue_shed_rows", "lost_between", "recall_between",
    }  # fmt: skip


# ---- a new one ------------------------------------------------------------------------------------------------------

LINES = """    probed_rows: int = metric("made up", if_any=True)
    probed_by_stream: dict[str, int] = metric("made up", BY_NAME, if_any=True)
"""
COUNTING = "        self.counters.stored_rows += rows.times.size\n"
COUNTED = (
    COUNTING
    + """        self.counters.probed_rows += 2 * len(rows)
        found = self.counters.probed_by_stream
        found[alias] = found.get(alias, 0) + 3 * len(rows)
"""
)
RUN = """
import pyarrow as pa
from tests.runners import Source, local_query
from tests.spark.following import followed
from tests.spark.harness import cut
from tests.spark.simulation import Simulation

at = pa.array([1_000_000 * i for i in range(40)], pa.timestamp("us"))
streams = [Source(name, pa.table({"k": [i % 3 for i in range(40)], "ts": at})) for name in "ab"]
sql = "SELECT k, COUNT(*) AS n FROM {} [RANGE 5 SECONDS] GROUP BY k"
sql = f"{sql.format('a')} UNION ALL {sql.format('b')}"
query = local_query(sql, streams)
query.to_arrow()
run = followed(Simulation(sql, streams, 2), {one.name: cut(one.table, [7, 11]) for one in streams})
for told in (query.metrics(), run.total.as_dict()):
    print(told["stored_rows"], told["probed_rows"], told["probed_by_stream"]["a"], told["probed_by_stream"]["b"])
"""


def test_a_line_of_the_table_and_the_line_that_counts_make_a_new_metric_on_both_hosts(tmp_path: Path) -> None:
    """A copy of the package with a made-up counter, and another by stream, that nothing else has heard of."""
    pytest.importorskip("pyspark")
    package = tmp_path / "watersmeet"
    shutil.copytree(ROOT / "src" / "watersmeet", package)  # with all that was compiled
    _change(package / "operators" / "counters.py", "    stored_rows: int", LINES + "    stored_rows: int")
    _change(package / "operators" / "counters.py", "import KNOWN", "import BY_NAME, KNOWN")
    _change(package / "operators" / "continuous" / "pipeline.py", COUNTING, COUNTED)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split("\n")[:2] == ["80 160 120 120"] * 2, done.stderr


def _change(path: Path, what: str, by: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(what) == 1, f"{path.name} says it elsewhere now"
    path.write_text(text.replace(what, by), encoding="utf-8")
