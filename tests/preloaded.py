"""What processes that are forked need, imported and loaded before, so that none does it again; no thread is started by
that."""

import gc

import pytest  # noqa: F401 (modules of tests, whose functions are called, need it)
import typer._adapters
import typer.main

import tests.command_line
import tests.databases.lives
import tests.durable.lives
import tests.forked
import tests.serve.serving
import watersmeet.cli.commands
import watersmeet.cli.run_durable
import watersmeet.cli.serve
import watersmeet.io.connectors.databases.duckdb_files
import watersmeet.io.connectors.databases.sqlite
import watersmeet.io.connectors.numbered_sinks
import watersmeet.io.connectors.readers
import watersmeet.operators.continuous.alone
import watersmeet.operators.join.window_join
import watersmeet.runtime.build_changing
from watersmeet.noticing import listen
from watersmeet.plan.walks import relations_below

QUERIES = (
    "SELECT a.id, b.id AS other, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "SELECT k, COUNT(*) AS n, SUM(v) AS v, MIN(s) AS s FROM a [RANGE 5 SECONDS] GROUP BY k",
)


def load() -> None:
    """What the first query of a process loads, most of it kernels, takes five times as long as a small query itself."""
    for text in QUERIES:
        session = watersmeet.Session()
        for name in "ab":
            session.stream(name, schema=tests.durable.lives.rows_of(name, 1).schema, time="ts", lateness="1 second")
        query = session.sql(text)
        with query.start() as run:
            for begin in range(0, 60, 20):
                for one in relations_below(query.plan.root):
                    run.push(one.name, tests.durable.lives.rows_of(one.name, 60).slice(begin, 20))
            run.finish()
            run.take()
    listen(None)  # as before the first session


typer.main.get_command(watersmeet.cli.commands.app)
load()
gc.collect()
gc.freeze()
