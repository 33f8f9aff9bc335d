"""`watersmeet serve` as it is started and stopped."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.forked import watersmeet
from tests.serve.serving import QUICK, Client, Events, Life, free_port, row
from tests.unit.cli.test_commands import call
from watersmeet.errors import RunError, SetupError, WatersmeetError
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.script import read_script
from watersmeet.serve.server import bound

SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
SELECT k, v FROM a;
"""


def script(folder: Path) -> str:
    path = folder / "script.sql"
    path.write_text(SCRIPT)
    return str(path)


def test_it_says_where_it_is_and_ends_when_asked_to(tmp_path: Path) -> None:
    """The whole way: a process, --json, a post, a listener, SIGTERM."""
    process = watersmeet("serve", script(tmp_path), "--port", "0", "--json", TMPDIR=str(tmp_path))
    told = []
    for line in process.stderr:
        told.append(json.loads(line))
        if told[-1]["event"] == "serving":
            break
    assert told[-1]["queries"] == ["query 1"]
    assert any("with --checkpoint DIR" in one.get("text", "") for one in told)
    client = Client(told[-1]["url"])
    with client.http.stream("GET", "/queries/query_1/changes") as response:
        events = Events(response)
        client.posted("a", [row(1, 2, 3)])
        assert events.next()["data"]["rows"] == [{"k": 1, "v": 2.0}]
        process.send_signal(signal.SIGTERM)
        assert events.next()["event"] == "end"
    told = [json.loads(line) for line in process.stderr]
    assert process.wait(20) == 0
    assert [one["metrics"]["rows_in"] for one in told if one["event"] == "stopped"] == [1]
    assert list(tmp_path.glob("watersmeet-serve-*")) == []


def test_sigterm_keeps_all_for_the_next_start(tmp_path: Path) -> None:
    life = Life(tmp_path, SCRIPT)
    life.client.posted("a", [row(1, 2, 3)])
    assert life.terminate() == 0
    life = Life(tmp_path, SCRIPT)
    assert life.client.get("/streams/a").json()["taken"] == 1
    assert life.client.get("/queries/query_1").json()["checkpoint"]["repeated_batches"] == 0
    assert life.terminate() == 0


def test_a_port_in_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bound("127.0.0.1", 0, None) as taken:
        port = taken.getsockname()[1]
        assert call("serve", script(tmp_path), "--port", str(port)) == 2
    told = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in told
    assert "--port" in told
    assert "Traceback" not in told


def test_a_batch_that_always_fails_can_be_left_out(tmp_path: Path) -> None:
    """The rest is there, before it and after it."""
    text = SCRIPT.replace("SELECT k", "SELECT k + 1 AS k")
    (job,) = read_script(text, opener=open_to_go_on, pushed=True)
    told: list[str] = []

    def made(*skipped: int) -> DurableJobs:
        batches = {job.name: frozenset(skipped)}
        return DurableJobs([job], tmp_path, QUICK, tell=lambda one: told.append(str(one)), pushed=True, skipped=batches)

    durable = made()
    durable.start()
    run = durable.runs[job.name]
    assert run.push("a", [row(1, 1, 1)]) == 0
    assert run.push("a", [row(2**63 - 1, 1, 2)]) == 1
    with pytest.raises(WatersmeetError, match="overflows"):
        durable.wait()
    with pytest.raises(RunError, match=r"batch 1 fails whenever it is repeated: .* overflows") as caught:
        made().start()
    assert "--skip-batch 1" in (caught.value.hint or "")
    for skipped in ((1,), ()):
        durable = made(*skipped)
        durable.start()
        run = durable.runs[job.name]
        run.push("a", [row(2, 1, 3)])
        durable.stop()
    assert run.taken("a") == 3
    assert told == ["skipped_batch: batch 1 with its 1 row was left out, as asked for"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org"])
def test_another_address_than_loopback_needs_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(SetupError, match="a token is needed"):
        bound(host, free_port(), None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-body", "much"], "--max-body much is no size"),
        (["--max-body", "5 rows"], "--max-body 5 rows is no size"),
        (["--gather", "soon"], "--gather"),
        (["--port", "0", "--skip-batch", "other:3"], "--skip-batch other:3 names no batch"),
        (["--port", "0", "--skip-batch", "last"], "--skip-batch last names no batch"),
        (["--host", "no.such.host.invalid", "--token", "t"], "no address of this machine"),
    ],
)
def test_what_is_wrong_with_an_option_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert call("serve", script(tmp_path), *options) == 2
    assert words in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert call("serve", script(tmp_path)) == 2
    assert "pip install 'watersmeet[serve]'" in capsys.readouterr().err


def test_it_goes_on_from_a_savepoint_with_a_query_more(tmp_path: Path) -> None:
    declared = "CREATE STREAM {} (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');\n"
    join = "SELECT a.v AS x, b.v AS y FROM a, b WHERE a.k = b.k WINDOW = {} SECONDS"
    text = declared.format("a") + declared.format("b")
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    old.write_text(f"{text}{join.format(60)};\n")
    new.write_text(f"{text}{join.format(10)};\n{join.format(60)};\n")
    process, client = _served(old, "--checkpoint", str(tmp_path / "here"))
    client.posted("a", [row(1, n, n) for n in range(40)], Idempotency_Key="x")
    _ended(process)
    assert call("savepoint", str(tmp_path / "here"), str(tmp_path / "moved")) == 0
    process, client = _served(new, "--checkpoint", str(tmp_path / "there"), "--from", str(tmp_path / "moved"))
    assert client.get("/streams/a").json()["taken"] == 40
    told = client.posted("b", [row(1, 0, 40)])
    for query, least in (("query_1", 30), ("query_2", 0)):
        batch = told["batches"][query.replace("_", " ")]
        rows = client.get(f"/queries/{query}/rows?batch={batch}").json()["rows"]
        assert sorted(one["x"] for one in rows) == list(range(least, 40))
    _ended(process)
    assert call("serve", str(new), "--from", str(tmp_path / "moved")) == 2


def test_a_start_with_a_join_that_has_changed_goes_on(tmp_path: Path) -> None:
    declared = "CREATE STREAM {} (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');\n"
    join = "SELECT a.v AS x, b.v AS y{} FROM a, b WHERE a.k = b.k WINDOW = {} SECONDS;\n"
    path = tmp_path / "script.sql"
    for more, seconds in (("", 60), (", a.v + b.v AS total", 10)):
        path.write_text(f"{declared.format('a')}{declared.format('b')}{join.format(more, seconds)}")
        process, client = _served(path, "--checkpoint", str(tmp_path / "state"))
        if not more:
            client.posted("a", [row(1, n, n) for n in range(40)], Idempotency_Key="x")
            _ended(process)
    assert client.posted("a", [row(1, n, n) for n in range(40)], Idempotency_Key="x")["repeated"]
    told = client.posted("b", [row(1, 0, 40)])
    rows = client.get(f"/queries/query_1/rows?batch={told['batches']['query 1']}").json()["rows"]
    assert sorted(one["total"] for one in rows) == list(range(30, 40))
    _ended(process)


def _served(script: Path, *more: str) -> tuple[Any, Client]:
    process = watersmeet("serve", str(script), "--port", "0", "--json", *more)
    for line in process.stderr:
        told = json.loads(line)
        if told["event"] == "serving":
            return process, Client(told["url"])
    raise AssertionError("it ended")


def _ended(process: Any) -> None:
    process.send_signal(signal.SIGTERM)
    process.stderr.read()
    assert process.wait(20) == 0
