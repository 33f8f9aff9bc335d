"""Scripts over streams with bad records and late rows: what is left out is counted by each query and kept once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pa_parquet

import watersmeet as wm
from tests.outsiders.comparing import plain_rows
from tests.outsiders.data import SCHEMA, Row
from tests.outsiders.running_scripts import judge_query, late_rows, named_session, quiet, shaken
from tests.outsiders.scripts import Script, draw_script


def judge_beside(number: int, folder: Path) -> None:
    draw = random.Random(f"beside {number}")
    script = draw_script(number)
    script = replace(script, streams=shaken(script.streams, draw))
    bad = {name: _timeless(draw, rows) for name, rows in script.streams.rows.items()}
    session = _session(script, bad, draw, folder)
    with quiet():
        outcomes = session.run(script.text())
    late = {name: late_rows(script.streams, name) for name in "abc"}
    most_late: Counter[str] = Counter()
    for query, outcome in zip(script.queries, outcomes, strict=True):
        told = outcome.metrics
        expected = {f"{name}: null time": len(bad[name]) for name in query.case.streams if bad[name]}
        assert told.get("bad_by_reason", {}) == expected, query.case.ours
        for name, count in told.get("late_by_stream", {}).items():
            most_late[name] = max(most_late[name], count)
        if len(query.case.streams) == 1:
            (name,) = query.case.streams
            assert told["late_rows"] == len(late[name]), query.case.ours
            kept = [row for at, row in enumerate(script.streams.rows[name]) if at not in late[name]]
            assert outcome.answer is not None
            judge_query(query, script.streams.replaced(name, kept), outcome.answer.to_pylist(), draw)
    _judge_bad(script, bad, _kept(folder / "bad.parquet"))
    _judge_late(script, late, most_late, _kept(folder / "late.parquet"))


def _timeless(draw: random.Random, rows: list[Row]) -> list[Row]:
    return [{**row, "ts": None} for row in rows if draw.random() < 0.15]


def _session(script: Script, bad: dict[str, list[Row]], draw: random.Random, folder: Path) -> wm.Session:
    session = named_session(script.streams)
    for name in ("bad", "late"):
        session.sql(f"CREATE SINK {name} WITH (sink = 'parquet', path = '{folder}/{name}.parquet')")
    for name, rows in script.streams.rows.items():
        mixed = list(rows)
        for one in bad[name]:
            mixed.insert(draw.randint(0, len(mixed)), one)
        lots = pa.Table.from_pylist(mixed, SCHEMA).to_batches(max_chunksize=draw.choice((1, 3, 1000)))
        lateness = f"{script.streams.lateness_us} microseconds"
        how = {"on_bad": "sink bad", "on_late": "sink late", "read": "arrival", "lateness": lateness}
        session.stream(name, pa.Table.from_batches(lots, SCHEMA), time="ts", **how)  # type: ignore[arg-type]
    return session


def _kept(path: Path) -> list[dict[str, Any]]:
    return pa_parquet.read_table(path).to_pylist() if path.exists() else []


def _judge_bad(script: Script, bad: dict[str, list[Row]], kept: Sequence[dict[str, Any]]) -> None:
    expected = {name: len(bad[name]) for name in script.names if bad[name]}
    assert Counter(one["stream"] for one in kept) == expected, "bad records in their sink"


def _judge_late(script: Script, late: dict[str, set[int]], most: Counter[str], kept: Sequence[dict[str, Any]]) -> None:
    """Each once, all that were late for anybody: of streams that each query reads alone exactly those."""
    for name in sorted(script.names):
        its = Counter(plain_rows([one[column] for column in SCHEMA.names] for one in kept if one["_stream"] == name))
        rows = script.streams.rows[name]
        all_rows = Counter(plain_rows([row[column] for column in SCHEMA.names] for row in rows))
        assert not its - all_rows, f"{name}: {its - all_rows} are in the sink twice"
        assert its.total() >= most[name], f"{name}: fewer late rows in the sink than a query counts"
        if all(one.case.streams == {name} for one in script.queries if name in one.case.streams):
            wanted = Counter(plain_rows([rows[at][column] for column in SCHEMA.names] for at in late[name]))
            assert its == wanted, f"{name}: late rows in their sink"
