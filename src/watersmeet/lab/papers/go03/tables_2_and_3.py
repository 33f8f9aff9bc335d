"""Tables 2 and 3: the eight rows of the naive lazy join, of which two are right."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.go03.streams import PAPER, Settings
from watersmeet.lab.papers.measuring import query_over, results_with_slips
from watersmeet.lab.papers.shapes import line_of
from watersmeet.papers.joins.loops import Slips

AS_PRINTED: Settings = {"small": {}, "paper": {}}

SECOND_US = 1_000_000
TABLE_2 = {"s1": (90, 100), "s2": (150, 180), "s3": (195, 205)}  # seconds; every attr is 1
ALL_100 = ", ".join(f"{name} [RANGE 100 SECONDS]" for name in TABLE_2)
# With this interval re-evaluation happens at NOW = 210, and the rows of s3 are the only new ones.
TABLE_3_SQL = (
    "SELECT s1.ts AS s1, s2.ts AS s2, s3.ts AS s3 FROM {} WHERE s1.attr = s2.attr AND s2.attr = s3.attr "
    "OPTIONS (join = '{}', refresh = '30 seconds', order = 's1, s2, s3')"
)


def tables_2_and_3(trial: ExperimentTrial) -> Result:
    del trial  # the rows are the paper's own
    rows = {
        name: pa.table({"ts": pa.array([t * SECOND_US for t in times], pa.timestamp("us")), "attr": [1] * len(times)})
        for name, times in TABLE_2.items()
    }
    naive, lazy = (TABLE_3_SQL.format(ALL_100, join) for join in ("naive", "nested_loop"))
    wrong = results_with_slips(naive, rows, Slips(no_time_tests=True))
    purged = results_with_slips(lazy, rows, Slips(purge_to_now=True))
    right = {name: _in_seconds(query_over(sql, rows).to_arrow()) for name, sql in (("naive", naive), ("lazy", lazy))}
    found = right["lazy"]
    lines = {name.upper(): [float(row[place]) for row in found] for place, name in enumerate(TABLE_2)}
    return Result(
        [
            Panel(
                "Correct results",
                "result",
                "ts of its tuples (s)",
                [str(i + 1) for i in range(len(found))],
                lines,
                table_only=True,
            )
        ],
        {
            "rows, naive without time tests": wrong.num_rows,
            "rows, naive with time tests": len(right["naive"]),
            "rows, lazy": len(found),
            "rows, lazy after expiring to NOW": purged.num_rows,
            "same rows": float(right["naive"] == found),
        },
    )


def _in_seconds(table: pa.Table) -> list[tuple[int, ...]]:
    columns = [column.cast(pa.int64()).to_pylist() for column in table.columns]
    return sorted(tuple(us // SECOND_US for us in row) for row in zip(*columns, strict=True))


def _the_two_rows(result: Result) -> bool:
    found = list(zip(*(line_of(result, name) for name in ("S1", "S2", "S3")), strict=True))
    return found == [(100, 150, 195), (100, 180, 195)]


W1 = Experiment(
    "GO03-W1",
    PAPER,
    "Tables 2 and 3: lazy re-evaluation with and without time tests",
    "The naive lazy join returns eight rows, of which two are right: members must be tested against the new tuple.",
    AS_PRINTED,
    tables_2_and_3,
    [
        Check("without time tests there are 8 rows", lambda r: r.numbers["rows, naive without time tests"] == 8),
        Check("the right rows are (100, 150, 195) and (100, 180, 195)", _the_two_rows),
        Check("with time tests the naive join gives the same two", lambda result: result.numbers["same rows"] == 1),
        Check(
            "expiring to NOW before joining loses both", lambda r: r.numbers["rows, lazy after expiring to NOW"] == 0
        ),
    ],
    data="the tuples of the paper's Table 2",
)
