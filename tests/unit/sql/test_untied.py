"""A comma in FROM without a condition is told, as it is often forgotten; CROSS JOIN is meant."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli.commands import app
from watersmeet.warning import PlanWarning

SCHEMA = {"k": "BIGINT", "v": "DOUBLE", "items": "BIGINT[]", "ts": "TIMESTAMP"}


def bound(sql: str) -> None:
    session = wm.Session()
    for name in ("a", "b", "c"):
        session.stream(name, schema=SCHEMA, time="ts")
    session.sql(sql)


@pytest.mark.parametrize(
    ("sql", "pair"),
    [
        ("SELECT a.k FROM a, b WINDOW = 1 MINUTE", "a and b"),
        ("SELECT a.k FROM a AS X, b AS Y WINDOW = 1 MINUTE".replace("a.k", "X.k"), "X and Y"),
        ("SELECT a.k FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.v > 1 AND b.v > 1", "a and b"),
        ("SELECT a.k FROM a, b, c WHERE a.k = b.k WINDOW = 1 MINUTE", "a and c"),
        ("SELECT a.k FROM a JOIN b ON TRUE WINDOW = 1 MINUTE", "a and b"),
        ("SELECT COUNT(*) AS n FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE]", "a and b"),
        ("SELECT x.k FROM (SELECT a.k FROM a, b WINDOW = 1 MINUTE) AS x", "a and b"),
    ],
)
def test_inputs_that_no_condition_ties_are_told(sql: str, pair: str) -> None:
    with pytest.warns(
        PlanWarning, match=f"cross_join: .*which rows of {pair} belong together.*or CROSS JOIN if that is meant"
    ):
        bound(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k FROM a CROSS JOIN b WINDOW = 1 MINUTE",
        "SELECT x.k FROM a AS x CROSS JOIN b AS Y, c WHERE c.k = y.k WINDOW = 1 MINUTE",
        "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE",
        "SELECT a.k FROM a, b WHERE a.v + b.v > 3 WINDOW = 1 MINUTE",
        "SELECT a.k FROM a, b, c WHERE a.k = b.k AND c.k = b.k WINDOW = 1 MINUTE",
        "SELECT a.k FROM a, b WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE",
        "SELECT a.k FROM a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.k = b.k",
        "SELECT a.k, n FROM a [RANGE 1 MINUTE], (SELECT COUNT(*) AS n FROM b [RANGE 1 MINUTE]) AS c",
        "SELECT a.k, item FROM a CROSS JOIN UNNEST(a.items) AS t (item)",
        "SELECT a.k FROM a",
    ],
)
def test_what_is_tied_or_meant_is_not_told(sql: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "cross_join")
        bound(sql)


def test_explain_tells_it(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("k,ts\n1,2026-01-01 12:00:00\n")
    declared = "(k BIGINT, ts TIMESTAMP) WITH (source='csv', path='{tmp_path}/rows.csv', time='ts')"
    streams = "".join(f"CREATE STREAM {name} {declared};\n" for name in "ab").format(tmp_path=tmp_path)
    (tmp_path / "q.sql").write_text(f"{streams}SELECT a.k FROM a, b WINDOW = 1 MINUTE;\n")
    with pytest.warns(PlanWarning, match="cross_join: .*a and b"):
        ran = CliRunner().invoke(app, ["explain", str(tmp_path / "q.sql")])
    assert ran.exit_code == 0, ran.output
