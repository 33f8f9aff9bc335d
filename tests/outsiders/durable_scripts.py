"""Scripts with checkpoints, in lives that are killed: files come between them, and queries are added."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from tests.durable.lives import POINTS, die_at
from tests.one_life import lived_through
from tests.outsiders.comparing import difference, plain_rows
from tests.outsiders.data import NAMES, SCHEMA, Row, Streams
from tests.outsiders.expectations import Oracle
from tests.outsiders.running_scripts import judge_query, quiet
from tests.outsiders.scripts import Query, Script
from watersmeet.model.types import sql_type

COLUMNS = ", ".join(f"{one.name} {sql_type(one.type)}" for one in SCHEMA)
FILES = 4


@dataclass(frozen=True)
class Lives:
    """How a script lives: when which files and queries come, and where it is killed."""

    script: Script
    folder: Path

    def text(self, queries: int) -> str:
        """Of the first of them."""
        lateness = f"{self.script.streams.lateness_us} microseconds"
        streams = [
            f"CREATE STREAM {name} ({COLUMNS}) WITH (source = 'parquet', path = '{self.folder}/{name}', time = 'ts', "
            f"lateness = '{lateness}')"
            for name in "abc"
        ]
        table = f"CREATE TABLE names WITH (source = 'parquet', path = '{self.folder}/names.parquet')"
        chosen = self.script.queries[:queries]
        views = dict.fromkeys(view for one in chosen for view in one.views)
        sinks = [
            f"CREATE SINK out_{at} WITH (sink = 'parquet', path = '{self.folder}/out_{at}') AS {one.case.ours}"
            for at, one in enumerate(chosen)
        ]
        return ";\n".join([*streams, table, *views, *sinks])

    def lay(self, number: int) -> None:
        """One file more of each stream."""
        for name in "abc":
            rows = self.script.streams.table(name)
            path, draft = self.folder / name / f"{number}.parquet", self.folder / f"draft_{name}"
            path.parent.mkdir(exist_ok=True)
            part = rows.slice(
                number * len(rows) // FILES, (number + 1) * len(rows) // FILES - number * len(rows) // FILES
            )
            pa_parquet.write_table(part, draft)
            os.utime(draft, (number + 1, number + 1))
            draft.replace(path)

    def rows_of(self, at: int) -> list[Row]:
        parts = sorted((self.folder / f"out_{at}").glob("part-*.parquet"))
        return [row for part in parts for row in pa_parquet.ParquetFile(part).read().to_pylist()]


def can_be_killed(script: Script) -> Script:
    """Without queries that need functions of Python."""
    plain = [one for one in script.queries if not any(name in one.case.ours for name in ("spread(", "in_order("))]
    return replace(script, queries=tuple(plain))


def judge_lives(script: Script, folder: Path) -> int:
    """Each query gives all of its answer once; one that is added may begin where windows of others are, and gives a
    part. How many lives were killed."""
    script, draw, died = can_be_killed(script), random.Random(script.number), 0
    if not script.queries:
        return 0
    ordered = sorted(script.queries, key=lambda one: one.case.kind == "growing")
    changing = sum(one.case.kind == "changing" for one in ordered)
    lives = Lives(replace(script, queries=tuple(ordered)), folder)
    pa_parquet.write_table(pa.Table.from_pylist(script.streams.names, NAMES), folder / "names.parquet")
    at_first = draw.randint(min(max(2, changing), len(ordered)), len(ordered))
    batch_rows = draw.choice((1, 3, 16, 300))
    for number in range(FILES):
        lives.lay(number)
        queries = at_first if number < FILES // 2 else len(ordered)
        if number < FILES - 1 and draw.random() < 0.8:
            point, after = draw.choice(POINTS), draw.randrange(6)
            died += not lived_through(live, lives.text(queries), folder, batch_rows, point, after)
    assert lived_through(live, lives.text(len(ordered)), folder, batch_rows, None, 0)
    for at, query in enumerate(ordered):
        try:
            (judge_query if at < at_first else judge_part)(query, script.streams, lives.rows_of(at), draw)
        except AssertionError as error:
            raise AssertionError(f"{query.case.ours}\n{error}") from None
    return died


def judge_part(query: Query, streams: Streams, rows: list[Row], draw: random.Random) -> None:
    given = plain_rows(row.values() for row in rows)
    _, extra = difference(plain_rows(Oracle(query.case, streams).rows(query.case.theirs)), given)
    assert not extra, f"came and not expected: {extra[:8]}"


def live(text: str, folder: Path, batch_rows: int, ends_at: str | None, after: int) -> None:
    """One life over what is there, which answers what waits if it is not to be killed."""
    from watersmeet.hosts.local.durable.jobs import DurableJobs
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.run_settings import RunSettings
    from watersmeet.runtime.script import read_script

    if ends_at is not None:
        die_at(ends_at, after)
    settings = RunSettings(
        batch_rows=batch_rows,
        save_every_s=0.01,
        commit_every_s=0.0,
        available_now=True,
        flush=ends_at is None,
        sync=False,
    )
    with quiet():
        jobs = DurableJobs(read_script(text, opener=open_to_go_on), folder / "state", settings, tell=lambda told: None)
        jobs.start()
        jobs.wait(every_s=0.01)
