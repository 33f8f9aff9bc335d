"""The queries of a script side by side: if one fails, all of them end, and somebody is told."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

LONG_S = 60.0


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_query_that_fails_ends_the_others_whichever_it_is(tmp_path: Path, failing: str) -> None:
    script = ""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        script += f"""
            CREATE STREAM {name} (k BIGINT, ts TIMESTAMP)
            WITH (source = 'json', path = '{tmp_path}/{name}', time = 'ts');
            CREATE SINK of_{name} WITH (sink = 'json', path = '{tmp_path}/of_{name}') AS SELECT k FROM {name};
        """
    runs = DurableJobs(read_script(script, opener=open_to_go_on), tmp_path / "state", RunSettings())
    runs.start()
    told: list[str] = []

    def wait() -> None:
        try:
            runs.wait(every_s=5.0)  # it fails and ends while it is waited for
        except Exception as error:
            told.append(str(error))

    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    (tmp_path / "draft").write_text("nonsense\n")
    (tmp_path / "draft").rename(tmp_path / failing / "1.json")
    waiting.join(LONG_S)
    still_there = waiting.is_alive()
    runs.request_stop()
    assert not still_there
    assert all(run.has_ended for run in runs.runs.values())
    assert "1.json cannot be read" in told[0]
