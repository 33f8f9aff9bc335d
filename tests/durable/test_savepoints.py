"""Runs that are moved by savepoints: what they answer before and after is what one run would have answered."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event, Timer
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import RunError
from watersmeet.runtime.savepoints.folder import Savepoint

QUERIES = {
    "join": "SELECT a.k, a.x, b.y FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE",
    "join by text": "SELECT a.k, a.x, b.y FROM a, b WHERE a.x = b.x DWINDOW (a, b) = 1 MINUTE",
    "no key": "SELECT a.k, b.y FROM a, b WHERE a.k < b.k WINDOW = 5 SECONDS",
    "group by": "SELECT a.k, COUNT(*) AS n, SUM(b.y) AS s, MEDIAN(b.y) AS m "
    "FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.k = b.k GROUP BY a.k",
    "windows": "SELECT window_end, k, AVG(y) AS m FROM HOP(b, 10 SECONDS, 30 SECONDS) "
    "GROUP BY window_start, window_end, k",
    "sessions": "SELECT window_start, window_end, k, COUNT(*) AS n FROM SESSION(b, 3 SECONDS PARTITION BY k) "
    "GROUP BY window_start, window_end, k",
    "outer join": "SELECT a.k, a.x, b.y FROM a LEFT JOIN b ON a.k = b.k "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS",
    "as of": "SELECT a.k, a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
    "over": "SELECT k, x, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS n "
    "FROM a",
    "bounded": "SELECT a.k, a.x, b.y FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE OPTIONS (memory = '1000 rows')",
    "rows": "SELECT a.k, a.x, b.y FROM a [ROWS 3], b [RANGE 1 MINUTE] WHERE a.k = b.k",
    "rows by key": "SELECT a.k, a.x, b.y FROM a [PARTITION BY k ROWS 3], b [RANGE 1 MINUTE] WHERE a.k = b.k",
    "top": "SELECT k, y FROM b [RANGE 1 MINUTE] ORDER BY y DESC LIMIT 3",
    "union": "SELECT k FROM a [RANGE 20 SECONDS] UNION SELECT k FROM b [RANGE 10 SECONDS]",
}
START = dt.datetime(2026, 1, 1)


def session() -> wm.Session:
    made = wm.Session()
    made.stream("a", schema={"k": "BIGINT", "x": "VARCHAR", "ts": "TIMESTAMP"}, time="ts", lateness="2 seconds")
    made.stream("b", schema={"k": "BIGINT", "x": "VARCHAR", "y": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
    return made


def rows_of(name: str, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Those of a are a little out of order."""
    found = []
    for i in numbers:
        ts = START + dt.timedelta(seconds=i - (1 if name == "a" and i % 5 == 3 else 0))
        one = {"k": i % (3 if name == "a" else 4), "x": f"w{i % 7}", "ts": ts}
        found.append(one if name == "a" else {**one, "y": i / 4})
    return found


def push(run: Any, query: Any, numbers: Sequence[int]) -> None:
    for at in range(0, len(numbers), 5):
        for name in query._reads():
            run.push(name, rows_of(name, numbers[at : at + 5]))


class Answers:
    """What runs give, one after the other."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.rows.update(map(str, batch.to_pylist()))


def answered(query: Any, folder: Path, numbers: Sequence[int], *, flush: bool = True) -> Counter[str]:
    """By a run that is not moved."""
    answers = Answers()
    with query.start(checkpoint=folder, on_answer=answers) as run:
        push(run, query, numbers)
        if flush:
            run.flush()
    return answers.rows


@pytest.mark.parametrize("name", QUERIES)
def test_a_run_goes_on_from_a_savepoint_in_another_folder(name: str, tmp_path: Path) -> None:
    query = session().sql(QUERIES[name])
    whole = answered(query, tmp_path / "whole", range(120))
    with query.start(checkpoint=tmp_path / "whole") as run:
        answer = run.answer() if query.plan.kind == "changes" else None
    found, before = Answers(), None
    for number, numbers in enumerate((range(50), range(50, 51), range(51, 100), range(100, 120))):
        with query.start(checkpoint=tmp_path / f"{number}", savepoint=before, on_answer=found) as run:
            push(run, query, numbers)
            before = tmp_path / f"savepoint-{number}"
            run.savepoint(before)
            if number == 3:
                run.flush()
        if number == 3 and answer is not None:
            assert Counter(map(str, run.answer().to_pylist())) == Counter(map(str, answer.to_pylist()))
        shutil.rmtree(tmp_path / f"{number}")
    assert found.rows == whole


@pytest.mark.parametrize("name", ["join", "group by", "outer join", "rows by key"])
def test_parts_of_a_state_come_together_and_apart(name: str, tmp_path: Path) -> None:
    def in_threads(many: int) -> Any:
        return session().sql(f"{QUERIES[name]} OPTIONS (threads = {many})")

    whole = answered(in_threads(1), tmp_path / "whole", range(100))
    found, before = Answers(), None
    parts = ((1, range(30)), (4, range(30, 60)), (2, range(60, 80)), (1, range(80, 100)))
    for number, (many, numbers) in enumerate(parts):
        query = in_threads(many)
        with query.start(checkpoint=tmp_path / f"{number}", savepoint=before, on_answer=found) as run:
            push(run, query, numbers)
            before = tmp_path / f"savepoint-{number}"
            run.savepoint(before)
            if number == 3:
                run.flush()
    assert found.rows == whole


def test_a_restored_run_keeps_what_it_began_with(tmp_path: Path) -> None:
    """Also if its process ends before it has saved anything of its own, and the savepoint is gone."""
    query = session().sql(QUERIES["join"])
    whole, found = answered(query, tmp_path / "whole", range(40)), Answers()
    with query.start(checkpoint=tmp_path / "0", on_answer=found) as run:
        push(run, query, range(20))
        run.savepoint(tmp_path / "savepoint")
    with query.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint", on_answer=found) as run:
        assert run.taken("a") == 20
    with query.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint", on_answer=found):
        pass  # as a service restarts
    shutil.rmtree(tmp_path / "savepoint")
    with query.start(checkpoint=tmp_path / "1", on_answer=found) as run:
        push(run, query, range(20, 40))
    assert found.rows == whole


def test_what_bounded_memory_has_lost_stays_counted(tmp_path: Path) -> None:
    exact = answered(session().sql(QUERIES["join"]), tmp_path / "exact", range(120))
    query = session().sql(f"{QUERIES['join']} OPTIONS (memory = '30 rows')")
    found, before = Answers(), None
    for number, numbers in enumerate((range(50), range(50, 80), range(80, 120))):
        with query.start(checkpoint=tmp_path / f"{number}", savepoint=before, on_answer=found) as run:
            push(run, query, numbers)
            before = tmp_path / f"savepoint-{number}"
            run.savepoint(before)
    counted = run.metrics()
    assert found.rows < exact
    assert counted["results"] == sum(found.rows.values())
    assert counted["exact_results"] == sum(exact.values())
    assert counted["kept_rows"] <= 30


def write(folder: Path, name: str, number: int, rows: list[dict[str, Any]]) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / name / f"{number}.parquet")


def of_files(folder: Path) -> Any:
    made = wm.Session()
    for name in ("a", "b"):
        made.stream(name, str(folder / name), time="ts", lateness="2 seconds")
    return made.sql(QUERIES["join"])


def test_files_are_read_on_in_the_middle_of_one_where_they_lie_now(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for number in range(2):
        for name in ("a", "b"):
            write(here, name, number, rows_of(name, range(number * 2500, (number + 1) * 2500)))
    whole = of_files(here).to_arrow()
    found: list[pa.RecordBatch] = []
    is_asked = Event()

    def give(batch: pa.RecordBatch) -> None:
        found.append(batch)
        is_asked.wait(5)

    run = of_files(here).start(checkpoint=tmp_path / "0", on_answer=give, batch_rows=200)
    while not found:  # the batch in hand goes on when the savepoint was asked for
        sleep(0.01)
    Timer(0.3, is_asked.set).start()
    run.savepoint(tmp_path / "savepoint")
    run.stop()
    said = Savepoint(tmp_path / "savepoint").query("query")
    given = said.state.counters["counters"].results  # by then: the run has gone on
    assert said.streams["a"].position["inside"] is not None or said.streams["b"].position["inside"] is not None
    shutil.copytree(here, there)
    later: list[pa.RecordBatch] = []
    again = of_files(there).start(
        checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint", on_answer=later.append, available_now=True
    )
    again.wait()
    before = [row for batch in found for row in batch.to_pylist()][:given]
    rows = [*before, *(row for batch in later for row in batch.to_pylist())]
    assert Counter(map(str, rows)) == Counter(map(str, whole.to_pylist()))
    assert str(here) not in (tmp_path / "savepoint" / "manifest.json").read_text()


def test_a_sink_that_is_ahead_is_refused_unless_it_begins_afresh(tmp_path: Path) -> None:
    query = session().sql(QUERIES["join"])
    sink = str(tmp_path / "out.parquet")
    with query.start(checkpoint=tmp_path / "0", sink=sink) as run:
        push(run, query, range(20))
        run.savepoint(tmp_path / "savepoint")
        push(run, query, range(20, 30))
    with pytest.raises(RunError, match="sink 'out' is ahead of the savepoint: it has batches of run"):
        query.start(checkpoint=tmp_path / "1", sink=sink, savepoint=tmp_path / "savepoint")
    with query.start(checkpoint=tmp_path / "0", sink=sink) as run:
        run.savepoint(tmp_path / "newer")
    with query.start(checkpoint=tmp_path / "2", sink=sink, savepoint=tmp_path / "newer") as run:
        push(run, query, range(30, 40))
    whole = answered(query, tmp_path / "whole", range(40))
    assert Counter(map(str, pq.read_table(sink).to_pylist())) == whole
    afresh = {"path": sink, "mode": "overwrite"}
    with query.start(checkpoint=tmp_path / "3", sink=afresh, savepoint=tmp_path / "savepoint", afresh=True) as run:
        push(run, query, range(20, 40))
    first = answered(query, tmp_path / "4", range(20), flush=False)
    assert Counter(map(str, pq.read_table(sink).to_pylist())) == whole - first


def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path: Path) -> None:
    query = session().sql(QUERIES["join"])
    with query.start(checkpoint=tmp_path / "0") as run:
        push(run, query, range(5))
        run.savepoint(tmp_path / "savepoint")
        with pytest.raises(RunError, match="something is there already"):
            run.savepoint(tmp_path / "savepoint")
    other = session().sql(QUERIES["union"])
    with pytest.raises(RunError, match="the savepoint is of another query"):
        other.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint")
    bounded = session().sql(QUERIES["bounded"])
    with pytest.raises(RunError, match="taken of this query with no memory in OPTIONS"):
        bounded.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint")
    with pytest.raises(RunError, match="has a run already, which did not begin with this savepoint"):
        query.start(checkpoint=tmp_path / "0", savepoint=tmp_path / "savepoint")
    with pytest.raises(RunError, match="is no savepoint"):
        query.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "0")
    file = next((tmp_path / "savepoint" / "query").glob("rows-*.arrow"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(RunError, match="its bytes are not those that were written"):
        query.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint")
    file.unlink()
    with pytest.raises(RunError, match="it is not there"):
        query.start(checkpoint=tmp_path / "1", savepoint=tmp_path / "savepoint")
