"""A query that is made where another stands goes on as if it had been there all along: from the history of its streams,
read up to exactly there."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from watersmeet.errors import RunError, SourceError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.local.durable.replacing import Compared
from watersmeet.hosts.local.replaying import replayed
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.savepoints.folder import Savepoint, writing_savepoint
from watersmeet.runtime.script import Job, read_script

NEAR = "SELECT a.k, a.x, b.x AS y FROM a, b WHERE a.k = b.k WINDOW = 3 SECONDS"
QUERIES = {
    "wider": NEAR.replace("3 S", "9 S"),
    "unmatched": "SELECT a.k, a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND a.x % 3 = b.x % 3 WINDOW = 6 SECONDS",
    "counted": "SELECT a.k, a.x, b.x AS y FROM a [ROWS 4], b [RANGE 20 SECONDS] WHERE a.k = b.k",
    "nearest": "SELECT a.k, a.x, b.x AS y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts",
    "over": "SELECT k, x, SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) AS s FROM a",
    "first": "SELECT k, x FROM DEDUPLICATE(a, 7 SECONDS PARTITION BY k)",
    "one stream": "SELECT p.k, p.x, q.x AS y FROM b p, b q WHERE p.k = q.k AND p.x < q.x WINDOW = 6 SECONDS",
    "closed windows": "SELECT window_end, k, COUNT(*) AS n FROM TUMBLE(b, 10 SECONDS) "
    "GROUP BY window_start, window_end, k",
}


def script(query: str, more: str = "") -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, x BIGINT, ts TIMESTAMP) WITH (source = 'json', path = '{name}', time = 'ts', "
        f"lateness = '2 seconds'{more});\n"
        for name in "ab"
    )
    return f"{streams}CREATE SINK q WITH (sink = 'json', path = 'out') AS {query};"


def arrive(number: int) -> None:
    """Rows of fifteen seconds, a little out of order, none late. What comes after two files has older times."""
    for name, many in (("a", 3), ("b", 4)):
        Path(name).mkdir(exist_ok=True)
        rows = []
        for i in range(15 * number, 15 * number + 15):
            at = i - (1 if i % 5 == 3 else 0)
            rows.append({"k": i % many, "x": i, "ts": f"2026-01-01 00:{at // 60:02d}:{at % 60:02d}"})
        draft = Path(f".{name}")
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        changed = 1e9 + number % 2 - 10 * (number // 2)
        os.utime(draft, (changed, changed))
        draft.rename(Path(name) / f"{number}.json")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(query: str, folder: str, savepoint: str | None = None, *, flush: bool = False) -> DurableJobs:
    text = script(query).replace("'out'", f"'{folder}.out'")
    settings = RunSettings(available_now=True, flush=flush, savepoint=savepoint, afresh=savepoint is not None)
    jobs = DurableJobs(read_script(text, opener=open_to_go_on), folder, settings)
    jobs.start()
    jobs.wait(every_s=0.01)
    return jobs


def given(folder: str) -> Counter[str]:
    return Counter(line for one in Path(f"{folder}.out").glob("part-*") for line in one.read_text().splitlines())


def job(query: str, more: str = "") -> Job:
    (found,) = read_script(script(query, more), opener=open_to_go_on)
    return found


def made(now: str, *, flush: bool = False, before: str = NEAR) -> Compared:
    """The savepoint of a query where the one before stands."""
    run(before, "before", flush=flush).savepoint("stands")
    stands = Savepoint("stands").query("q")
    contents, seen = replayed("q", job(now).plan, job(before).plan, stands, is_answered=flush, compare_us=10_000_000)
    with writing_savepoint("made") as written:
        written.add("q", contents)
    return seen


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_it_goes_on_as_if_it_had_been_there(name: str, *, flush: bool) -> None:
    for number in range(2):
        arrive(number)
    run(QUERIES[name], "alone", flush=flush)
    first = given("alone")
    if name != "closed windows":
        made(QUERIES[name], flush=flush)
    else:
        made(QUERIES[name], flush=flush, before="SELECT k, x FROM b WHERE x > 3")
    for number in range(2, 4):
        arrive(number)
    for flushing in (False, True):
        run(QUERIES[name], "alone", flush=flushing)
        run(QUERIES[name], "now", "made", flush=flushing)
        assert given("now") == given("alone") - first
    assert given("now")


def test_what_both_gave_of_the_last_rows_is_compared() -> None:
    for number in range(2):
        arrive(number)
    assert made(NEAR.replace("WHERE", "WHERE a.k >= 0 AND")).words().endswith("the same of both")
    wider = made_anew(QUERIES["wider"])
    assert wider.only_before.num_rows == 0
    assert wider.only_now.num_rows > 0
    assert wider.same > 0


def made_anew(now: str) -> Compared:
    stands = Savepoint("stands").query("q")
    return replayed("q", job(now).plan, job(NEAR).plan, stands, is_answered=False, compare_us=10_000_000)[1]


def test_what_cannot_be_read_up_to_there_is_refused_by_name() -> None:
    for number in range(2):
        arrive(number)
    run("SELECT k, x FROM a WHERE x > 3", "before").savepoint("stands")
    stands, before = Savepoint("stands").query("q"), job("SELECT k, x FROM a WHERE x > 3").plan

    def refused(query: str, more: str = "") -> str:
        with pytest.raises((RunError, SourceError)) as error:
            replayed("q", job(query, more).plan, before, stands, is_answered=False, compare_us=0)
        return error.value.message

    assert "the new q reads stream 'b', and the one before does not" in refused(NEAR)
    Path("a/0.json").unlink()
    assert "0.json" in refused("SELECT k FROM a [ROWS 3]")
