"""A query that fails stops alone: it says why wherever one looks, the others go on, and what is posted is kept."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forked import watersmeet
from tests.serve.serving import QUICK, Client, Life, free_port, listening, row, serving
from watersmeet.cli.serve import Address, serve_script
from watersmeet.errors import RunError
from watersmeet.serve.limits import Limits

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE SINK sums WITH (sink = 'parquet', path = '{folder}/sums') AS
  SELECT k, SUM(v) AS total FROM a [RANGE 1 HOUR] GROUP BY k;
SELECT k + 1 AS k, v FROM a;
"""
BAD = row(2**63 - 1, 1, 2)


def fails(client: Client) -> int:
    """Post a row that one of the queries cannot take; the number of its batch there."""
    client.posted("a", [row(1, 1, 1)])
    number: int = client.posted("a", [BAD])["batches"]["query 2"]
    until = time.monotonic() + 20
    while client.get("/health").status_code == 200:
        assert time.monotonic() < until, "the query has not failed"
        time.sleep(0.01)
    return number


def test_the_others_go_on_and_everybody_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, SCRIPT) as client, listening(client, "query_2") as events:
        number = fails(client)
        words = f"'query 2' has failed at batch {number}: "
        health = client.get("/health").json()
        assert health["status"] == "failed"
        assert list(health["failed"]) == ["query 2"]
        assert health["failed"]["query 2"]["error"].startswith(words)
        assert "overflows" in health["failed"]["query 2"]["error"]
        assert f"--skip-batch 'query 2:{number}'" in health["failed"]["query 2"]["hint"]
        for path in ("answer", "rows?batch=99", "changes"):
            found = client.get(f"/queries/query_2/{path}")
            assert (found.status_code, found.json()["error"].startswith(words)) == (503, True), path
        assert 'watersmeet_failed{query="query 2"} 1.0' in client.get("/metrics").text
        assert 'watersmeet_failed{query="sums"} 0.0' in client.get("/metrics").text
        states = {one["name"]: one["state"] for one in client.get("/queries").json()["queries"]}
        assert states == {"sums": "running", "query 2": "failed"}
        assert events.next()["data"]["rows"] == [{"k": 2, "v": 1.0}]
        heard = events.next()
        assert (heard["event"], heard["data"]["error"].startswith(words)) == ("failed", True)
        # The other has all rows, and those that come.
        told = client.posted("a", [row(1, 5, 3), row(9, 9, 4)])
        assert told["failed"] == ["query 2"]
        assert told["batches"]["query 2"] > number
        assert {"k": 1, "total": 6.0} in client.answer("sums", told["batches"]["sums"])
        stream = client.get("/streams/a").json()
        assert stream["taken_by_query"] == {"sums": 4, "query 2": 4}


def test_a_later_start_that_leaves_the_batch_out_has_all_the_others(tmp_path: Path) -> None:
    """Also what was posted after it, by which posts are known again, and after a start that failed once more."""
    for life in range(2):
        with serving(tmp_path, SCRIPT) as client:
            if life == 0:
                number = fails(client)
            told = client.posted("a", [row(10 + life, 1, 3 + life)], X_Sequence=str(life + 1))
            assert told["failed"] == ["query 2"]
            again = client.posted("a", [row(10 + life, 1, 3 + life)], X_Sequence=str(life + 1))
            assert again["repeated"]
            assert client.get("/streams/a").json()["taken"] == 3 + life
            assert client.get("/health").json()["failed"]["query 2"]["batch"] == number
    with serving(tmp_path, SCRIPT, skipped={"query 2": frozenset({number})}) as client:
        assert client.get("/health").status_code == 200
        told = client.posted("a", [row(12, 1, 9)], X_Sequence="3")
        # Those before the batch were heard of in the first life; all behind it are here.
        found = client.get(f"/queries/query_2/rows?batch={told['batches']['query 2']}").json()["rows"]
        assert [one["k"] for one in found][-3:] == [11, 12, 13]
        assert sorted(one["k"] for one in client.answer("sums", told["batches"]["sums"])) == [1, 10, 11, 2**63 - 1]


def test_a_start_that_could_answer_nothing_says_why(tmp_path: Path) -> None:
    lines = SCRIPT.splitlines()
    alone = "\n".join([lines[1], lines[-1]])
    with serving(tmp_path, alone) as client:
        client.posted("a", [BAD])
    kept = replace(QUICK, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(RunError, match=r"'query 1' has failed at batch 0: .*overflows") as caught:
        serve_script(alone, kept, Address("127.0.0.1", free_port(), None), Limits())
    assert "--skip-batch 'query 1:0'" in (caught.value.hint or "")


def test_the_process_stays_and_ends_with_the_reason(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.format(folder=tmp_path))
    port = free_port()
    process = watersmeet("serve", str(script), "--port", str(port), "--quiet", TMPDIR=str(tmp_path))
    assert "serving" in process.stderr.readline()
    client = Life.client_of(port)
    number = fails(client)
    assert client.posted("a", [row(1, 1, 3)])["failed"] == ["query 2"]
    process.terminate()
    told = process.stderr.read()
    assert process.wait(30) == 1
    assert f"warning: 'query 2' has failed at batch {number}: " in told
    assert f"hint: a start with --skip-batch 'query 2:{number}'" in told
    assert "Traceback" not in told
