"""`watersmeet run --view`: a page beside a run, to look at and no more."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.forked import Running, watersmeet
from tests.serve.serving import NDJSON, Client, row
from tests.unit.cli.test_commands import call

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (source = 'json', path = '{folder}/a', time = 'ts');
CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (source = 'json', path = '{folder}/b', time = 'ts');
CREATE SINK pairs WITH (sink = 'parquet', path = '{folder}/pairs') AS
  SELECT a.k, b.v FROM a, b WHERE a.k = b.k WINDOW = 10 SECONDS;
CREATE SINK groups WITH (sink = 'parquet', path = '{folder}/groups') AS
  SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k;
"""


def script(folder: Path) -> str:
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
        arrive(folder, name, 0)
    path = folder / "script.sql"
    path.write_text(SCRIPT.format(folder=folder))
    return str(path)


def arrive(folder: Path, name: str, number: int) -> None:
    rows = [row(k % 3, k, 10 * number + k) for k in range(6)]
    (folder / name / f".{number}").write_text("".join(json.dumps(one) + "\n" for one in rows))
    os.rename(folder / name / f".{number}", folder / name / f"{number}.json")


@contextmanager
def viewed(*options: str) -> Iterator[tuple[Running, Client]]:
    process = watersmeet("run", *options, "--json")
    try:
        for line in process.stderr:
            told = json.loads(line)
            if told["event"] == "viewing":
                break
            assert told["event"] != "error", told
        yield process, Client(told["url"])
    finally:
        process.kill()
        process.wait()


def query(client: Client, name: str, until: Any) -> dict[str, Any]:
    """What is told of a query, once something is so."""
    patience = time.monotonic() + 30
    while True:
        found: dict[str, Any] = client.get(f"/queries/{name}").json()
        if until(found):
            return found
        assert time.monotonic() < patience, found
        time.sleep(0.05)


def test_a_run_that_ends_stays_to_be_looked_at(tmp_path: Path) -> None:
    with viewed(script(tmp_path), "--engine", "local", "--view", "0") as (process, client):
        groups = query(client, "groups", lambda found: found["state"] == "ended")
        pairs = query(client, "pairs", lambda found: found["state"] == "ended")
        assert pairs["metrics"]["rows_by_stream"] == {"a": 6, "b": 6}
        assert groups["metrics"]["results"] == pq.read_table(tmp_path / "groups").num_rows
        assert client.get("/queries/pairs/rows").json()["rows"] == pq.read_table(tmp_path / "pairs").to_pylist()
        # By the end of the hour behind the last row all have left.
        assert client.answer("groups") == []
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/").headers["content-type"].startswith("text/html")
        found = client.http.post("/streams/a", content=b"{}", headers={"Content-Type": NDJSON})
        assert (found.status_code, "watersmeet serve" in found.json()["hint"]) == (409, True)
        assert 'watersmeet_rows_in_total{query="pairs"} 12.0' in client.get("/metrics").text
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_run_that_goes_on_is_followed(tmp_path: Path) -> None:
    options = ("--engine", "local", "--checkpoint", str(tmp_path / "state"), "--view")
    with viewed(script(tmp_path), *options) as (process, client):
        query(client, "pairs", lambda found: found["metrics"]["rows_in"] == 12)
        held = query(client, "pairs", lambda found: found["metrics"]["rows_in"] == 12)["metrics"]
        assert held["window_rows_by_input"] == {"a": 6, "b": 6}
        assert sum(held["window_rows_by_input"].values()) == held["kept_rows"]
        for name in ("a", "b"):
            arrive(tmp_path, name, 1)
        found = query(client, "pairs", lambda found: found["metrics"]["rows_in"] == 24)
        assert found["state"] == "running"
        assert {one["k"] for one in client.answer("groups")} == {0, 1, 2}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130


def test_the_page_does_not_change_what_a_run_writes(tmp_path: Path) -> None:
    with viewed(script(tmp_path), "--engine", "local", "--final", "--view", "0") as (process, client):
        query(client, "groups", lambda found: found["state"] == "ended")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    found = pq.read_table(tmp_path / "groups").sort_by("k")
    assert found.to_pylist() == pa.table({"k": [0, 1, 2], "n": [2, 2, 2]}).to_pylist()


@pytest.mark.parametrize("port", ["70000", "123456"])
def test_a_port_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert call("run", script(tmp_path), "--engine", "local", "--view", port) == 2
    assert f"--view {port} is no port" in capsys.readouterr().err
