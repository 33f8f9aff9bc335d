"""A sink that replaces what is at its path does so when its run begins, and never again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script


def life(text: str, folder: Path, state: str = "state") -> list[int]:
    runs = DurableJobs(read_script(text, opener=open_to_go_on), folder / state, RunSettings(available_now=True))
    runs.start()
    runs.wait(every_s=0.02)
    return sorted(json.loads(one)["k"] for path in (folder / "out").rglob("part-*") for one in path.open())


@pytest.mark.parametrize("kind", ["sink = 'json', path = '", "sink = 'files', format = 'json', path = 'file://"])
def test_what_another_query_has_written_since_stays(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 1, "ts": "2026-01-01 00:00:00"}\n')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"part-abc-{0:015d}.json").write_text('{"k": 0}\n')  # of a run before
    to = f"{kind}{tmp_path}/out', mode ="
    stream = f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (path = '{tmp_path}/in', source = 'json', time = 'ts');"
    one = f"{stream} CREATE SINK a WITH ({to} 'overwrite') AS SELECT k FROM s;"
    other = f"{stream} CREATE SINK b WITH ({to} 'append') AS SELECT k FROM s WHERE k > 1;"
    assert life(one, tmp_path, "a") == [1]
    (tmp_path / "in" / "2.json").write_text('{"k": 2, "ts": "2026-01-01 00:00:01"}\n')
    assert life(other, tmp_path, "b") == [1, 2]
    assert life(one, tmp_path, "a") == [1, 2, 2]
