"""After a kill at any point the answer is as if nothing had happened: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from tests.durable.lives import (
    POINTS,
    POINTS_OF_PARTITIONS,
    Case,
    acknowledged,
    answer,
    killed_again_and_again,
    lived,
    made_run,
    write_files,
)
from tests.effort import EFFORT
from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.notes import RunNotes
from watersmeet.hosts.local.durable.place import Place

COUNT = 400
QUERIES = {
    "join": "SELECT a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "left": "SELECT a.id AS x, b.id AS y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 1 SECONDS",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM a [RANGE 5 SECONDS] GROUP BY k",
    "log": (
        "SELECT c.*, t.name FROM CHANGES((SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k)) AS c "
        "LEFT JOIN (VALUES (1, 'one'), (2, 'two')) AS t (k, name) ON t.k = c.k"
    ),
    "together": (
        "SELECT u.id, b.id AS y, u.s FROM (SELECT id, k, s, ts FROM a UNION ALL SELECT id, k, s, ts FROM b) AS u "
        "JOIN b ON u.k = b.k AND ABS(u.ts - b.ts) < 1 SECOND"
    ),
}


def case_of(folder: Path, query: str, *, pushed: bool) -> Case:
    names = ("a",) if query in ("groups", "log") else ("a", "b")
    return Case(QUERIES[query], folder, () if pushed else names, names if pushed else ())


def begun(case: Case) -> Case:
    case.folder.mkdir(parents=True)
    write_files(case, COUNT)
    return case


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., pa.Table]:
    """What a life that nothing happens to gives."""

    @cache
    def given(query: str, *, pushed: bool = False) -> pa.Table:
        case = begun(case_of(tmp_path_factory.mktemp("whole") / "case", query, pushed=pushed))
        assert lived(case, COUNT)
        return answer(case)

    return given


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_of_a_batch_changes_nothing(
    point: str, tmp_path: Path, whole: Callable[..., pa.Table]
) -> None:
    killed = begun(case_of(tmp_path / "killed", "join", pushed=False))
    assert not lived(killed, COUNT, point, 0)
    lived(killed, COUNT, point, 3)
    assert lived(killed, COUNT)
    assert answer(killed).equals(whole("join"))


@pytest.mark.parametrize("point", POINTS_OF_PARTITIONS[::2])  # make chaos goes through all
def test_a_kill_amid_the_files_of_a_commit_changes_nothing(
    point: str, tmp_path: Path, whole: Callable[..., pa.Table]
) -> None:
    killed = replace(begun(case_of(tmp_path / "killed", "groups", pushed=False)), partition_by="k")
    assert not lived(killed, COUNT, point, 4 if "Path" in point else 0)
    lived(killed, COUNT, point, 25)
    assert lived(killed, COUNT)
    expected = whole("groups")
    run = RunNotes(Place(killed.folder / "checkpoint")).get("run")
    assert {one.name for one in (killed.folder / "out").iterdir()} == {
        f".start-{run}",  # who owns it
        *(f"k={k}" for k in expected["k"].unique().to_pylist()),
    }
    assert answer(killed).equals(expected)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("pushed", [False, True], ids=["files", "pushed"])
def test_many_kills_change_nothing(query: str, pushed: bool, tmp_path: Path, whole: Callable[..., pa.Table]) -> None:
    # How streams are read side by side decides what is late, so rows that are pushed come in one order only.
    killed = begun(case_of(tmp_path / "killed", query, pushed=pushed))
    died = killed_again_and_again(killed, COUNT, seed=len(query), kills=3 * EFFORT)
    assert died
    assert answer(killed).equals(whole(query, pushed=pushed))
    if pushed:
        assert acknowledged(killed) == dict.fromkeys(killed.pushed, COUNT)


def test_a_run_goes_on_with_files_that_come_later(tmp_path: Path, whole: Callable[..., pa.Table]) -> None:
    later = begun(case_of(tmp_path / "later", "groups", pushed=False))
    hidden = [(path, path.with_name(f"_{path.name}")) for path in sorted((later.folder / "a").iterdir())[2:]]
    for path, aside in hidden:
        path.rename(aside)
    assert lived(later, COUNT)
    first = answer(later).num_rows
    for path, aside in hidden:
        aside.rename(path)
    assert lived(replace(later, batch_rows=1), COUNT)
    assert 0 < first < answer(later).num_rows
    assert answer(later).equals(whole("groups"))


def test_batches_are_not_repeated_with_another_lateness(tmp_path: Path) -> None:
    case = begun(case_of(tmp_path / "case", "groups", pushed=False))
    assert not lived(case, COUNT, "FilesSink.commit after", 0)
    with pytest.raises(RunError, match="lateness of stream 'a' was '1 s' and is now '20 s'"):
        made_run(replace(case, lateness="20 seconds")).start()
    assert lived(case, COUNT)
    later = made_run(replace(case, lateness="20 seconds"))  # all was done, so nothing is repeated
    later.start()
    later.wait()
