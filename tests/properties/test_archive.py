"""What bounded memory loses is completed later: given and completed rows together are the exact answer, each once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.effort import random_cases
from tests.properties.strategies import cases
from tests.properties.test_adaptive import restless
from tests.properties.test_shedding import POLICIES, bounds, losses_are_known, refuse_contradictions, streams_in
from tests.properties.test_shedding import with_options as extended
from tests.runners import Bag, answered, bag_of, by_reference, local_query
from tests.unit.operators.keeping.test_shedding_join import (
    FORMS,
    MEMORY,
    exactly,
    operator_of,
    random_tables,
    selected,
    steps,
)
from watersmeet.archive import completion as completing
from watersmeet.archive.complete import Completing, CompletionReport
from watersmeet.archive.completion import Completion, CompletionProgress
from watersmeet.archive.folder import Archive
from watersmeet.archive.targets import FolderTarget
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.model.time import FOREVER_US
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import Saved
from watersmeet.plan.query import Plan
from watersmeet.sql import bind

Steps = Sequence[tuple[str, Rows]]
some = random_cases(12)


@pytest.mark.parametrize("policy", POLICIES)
@some
@given(
    cases(most_streams=4, least_streams=2),
    st.data(),
    st.lists(st.sampled_from([1, 2, 3, 5, None]), min_size=6, max_size=6),
)
def test_given_and_completed_rows_are_the_exact_answer(policy, case, data, sizes):
    refuse_contradictions(case)
    recall = data.draw(st.sampled_from(["exact", "exact", "none"]))
    sizes_of = dict(zip((source.name for source in case.sources), sizes, strict=False))
    with tempfile.TemporaryDirectory() as folder:
        options = f"{data.draw(bounds(streams_in(case)))}, shed = '{policy}', recall = '{recall}'"
        query = local_query(extended(case, f"{options}, archive = '{folder}/archive'"), case.sources, sizes_of)
        given_now = answered(query)
        found = given_now.bag
        completed = bag_of(wm.complete(query, chunk_rows=data.draw(st.sampled_from([1, 3, 1000]))))
        given_ones, lost = Completion(Archive.open(f"{folder}/archive")).totals()
    assert found + completed == by_reference(case.sql, given_now.in_time(case.sources))
    assert given_ones == found.total()
    assert lost == (completed.total() if recall == "exact" and losses_are_known(case) else None)


# ---- with crashes in between ----------------------------------------------------------------------------------------


def plan_of(sql: str, streams: int) -> Plan:
    catalog = Catalog()
    for name, data in zip("abcd", random_tables(streams), strict=False):
        catalog.add(Stream(name, data.schema, "ts"))
    return bind(sql, catalog)


def bounded(form: str, policy: str, recall: str = "exact", allocation: str = "fixed") -> str:
    options = f"memory = '{MEMORY[form]} rows', shed = '{policy}', recall = '{recall}', allocation = '{allocation}'"
    return f"{selected(form)} OPTIONS ({options}, archive = 'unused')"


def pushed(operator: Operator, now: Steps, before: Steps, streams: int) -> Bag:
    """What comes of some steps, and after the last one of the end of all streams."""
    newest = dict.fromkeys("abcd"[:streams], -(10**15)) | {name: int(rows.times[-1]) for name, rows in before}
    results: list[pa.RecordBatch] = []
    for name, rows in now:
        newest[name] = int(rows.times[-1])
        results += [*operator.push(name, rows), *operator.advance(newest)]
    if len(before) + len(now) == len(steps(random_tables(streams), 20)):
        results += operator.advance(dict.fromkeys(newest, FOREVER_US))
    return sum((bag_of(pa.Table.from_batches([one])) for one in results), Bag())


class Host:
    """Runs a join in batches like a durable host: a batch counts once it is committed, with its results, its state and
    its part of the archive; what is left of one that crashed is overwritten."""

    def __init__(self, folder: Path, form: str, policy: str, recall: str = "exact") -> None:
        self.streams = int(form[0])
        self.sql = bounded(form, policy, recall)
        self.commits = folder / "commits"
        self.commits.mkdir()
        self.archive = Archive.for_writing(folder / "archive", plan_of(self.sql, self.streams))
        self.run = self.archive.run_named("query")
        self.run.follow(commits=str(self.commits))
        self.steps = steps(random_tables(self.streams), 20)
        self.taken = 0
        self.results: Bag = Bag()
        self.state: bytes | None = None

    @property
    def ended(self) -> bool:
        return self.taken >= len(self.steps)

    def batch(self, size: int, *, crash: bool) -> None:
        operator = operator_of(self.sql, self.streams)
        joining = operator.bounded
        assert joining is not None
        joining.start_recording()
        if self.state is not None:
            operator.load(Saved.from_bytes(self.state))
        assert joining.recorder is not None
        now = self.steps[self.taken : self.taken + size]
        found = pushed(operator, now, self.steps[: self.taken], self.streams)
        counters = joining.counters
        page = joining.recorder.take(counters.results, counters.lost_results)
        self.run.write(page, 0, self.taken)
        if crash:
            return
        (self.commits / str(self.taken)).touch()
        self.results += found
        self.state = operator.save(tables=False).to_bytes()
        self.taken += size


def complete_into(archive: Path, folder: Path, chunk_rows: int = 60, *, again: bool = False) -> CompletionReport:
    completion = Completion(Archive.open(archive), chunk_rows=chunk_rows)
    return Completing(completion, FolderTarget(folder, "parquet", completion.schema, {})).run(again=again)


def rows_in(folder: Path) -> Bag:
    files = sorted(folder.glob("*.parquet"))
    return sum((bag_of(pa_parquet.read_table(one, partitioning=None)) for one in files), Bag())


@pytest.mark.parametrize(("form", "recall"), [*product(FORMS, ["exact", "none"]), ("2 RANGE", "panes")])
def test_crashes_neither_lose_nor_repeat_anything(form, recall, tmp_path):
    """Batches crash before they are committed; completion runs now and then in between, and at the end."""
    policy = POLICIES[list(FORMS).index(form) % len(POLICIES)]
    host = Host(tmp_path, form, policy, recall)
    number = 0
    while not host.ended:
        number += 1
        host.batch(3 + number % 2, crash=number % 3 == 0)
        if number % 4 == 0:
            complete_into(host.archive.path, tmp_path / "completed")
            assert host.results + rows_in(tmp_path / "completed") <= exactly(form)
    report = complete_into(host.archive.path, tmp_path / "completed")
    completed = rows_in(tmp_path / "completed")
    assert host.results + completed == exactly(form)
    assert completed
    assert (report.finished, report.total) == (True, exactly(form).total())
    assert report.completed + report.completed_before == completed.total()
    if recall == "exact":
        assert report.lost == completed.total()
    assert complete_into(host.archive.path, tmp_path / "completed").completed == 0


# Its routes need different indexes.
TWO_KEYS = "FROM a [RANGE 30 SECONDS], b [RANGE 30 SECONDS], c [RANGE 50 SECONDS] WHERE a.k = b.k AND b.id = c.id"


@pytest.mark.parametrize("form", ["3 two keys", "3 mixed", "4 directed"])
def test_joins_that_crash_and_change_their_routes_neither_lose_nor_repeat_anything(form, tmp_path, monkeypatch):
    """A batch after a crash begins on the first routes, over what was saved on others."""
    monkeypatch.setitem(FORMS, "3 two keys", TWO_KEYS)
    monkeypatch.setitem(MEMORY, "3 two keys", 24)
    policy = POLICIES[list(FORMS).index(form) % len(POLICIES)]
    host, number = Host(tmp_path, form, policy), 0
    with restless(7) as planners:
        while not host.ended:
            number += 1
            host.batch(3, crash=number % 4 == 0)
    assert sum(planner.switches for planner in planners) > number
    complete_into(host.archive.path, tmp_path / "completed")
    assert host.results + rows_in(tmp_path / "completed") == exactly(form)
    assert host.results < exactly(form)


# ---- and while completing -------------------------------------------------------------------------------------------


@cache
def archived(folder: str, form: str = "3 pairwise") -> tuple[Path, Bag]:
    """An archive, and what is missing."""
    host_folder = Path(folder)
    host = Host(host_folder, form, "prob")
    while not host.ended:
        host.batch(5, crash=False)
    return host.archive.path, exactly(form) - host.results


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bag]:
    return archived(str(tmp_path_factory.mktemp("archived")))


MOMENTS = ["before a chunk is written", "before it is committed", "after it is committed"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_completion_that_is_interrupted_at_any_chunk_goes_on(moment, archive, tmp_path, monkeypatch):
    path, missing = archive
    (path / completing.PROGRESS).unlink(missing_ok=True)
    write = CompletionProgress.write
    first = Completion(Archive.open(path), chunk_rows=60).next_round(CompletionProgress())
    assert first is not None
    chunks = len(first.cuts)
    assert chunks > 4

    def crash_once(self: CompletionProgress, folder: Path) -> None:
        at = None if self.open is None else self.open.next_chunk
        if moment == "after it is committed":
            write(self, folder)
        if (self.rounds, at) not in crashed:
            crashed.add((self.rounds, at))
            raise RuntimeError("a crash")
        if moment != "after it is committed":
            write(self, folder)

    crashed: set[object] = set()
    if moment == "before a chunk is written":
        sink = FolderTarget.sink

        def fail_once(self: FolderTarget, name: str) -> object:
            if name not in crashed:
                crashed.add(name)
                raise RuntimeError("a crash")
            return sink(self, name)

        monkeypatch.setattr(FolderTarget, "sink", fail_once)
    else:
        monkeypatch.setattr(CompletionProgress, "write", crash_once)
    report = None
    for _ in range(3 * chunks):
        try:
            report = complete_into(path, tmp_path)
            break
        except RuntimeError:
            assert rows_in(tmp_path) <= missing
            assert not list(tmp_path.glob(".*"))
    assert len(crashed) >= chunks
    assert report is not None
    assert report.finished
    assert rows_in(tmp_path) == missing
    assert json.loads((path / completing.PROGRESS).read_text())["completed"] == missing.total()


def test_completing_again_begins_from_the_beginning_with_any_chunks(archive, tmp_path):
    path, missing = archive
    for chunk_rows in (20, 60, 10_000):
        assert complete_into(path, tmp_path, chunk_rows, again=True).completed == missing.total()
        assert rows_in(tmp_path) == missing


def test_two_archives_of_one_query_can_be_completed_into_one_folder(tmp_path):
    missing = Bag()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        host = Host(tmp_path / name, "2 RANGE", "prob")
        while not host.ended:
            host.batch(5, crash=False)
        missing += exactly("2 RANGE") - host.results
        complete_into(host.archive.path, tmp_path / "completed")
    assert rows_in(tmp_path / "completed") == missing
