"""All kinds of cases, each drawn from a number alone; and what is told of one that fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.outsiders import (
    changing,
    composed,
    expressions,
    joins,
    lists_and_copies,
    mixtures,
    outer_joins,
    over,
    stepping,
    subqueries,
)
from tests.outsiders.data import Streams, draw_streams
from tests.outsiders.judging import judge
from tests.outsiders.pairs import Case
from tests.outsiders.running import MODES

Template = Callable[[random.Random, Streams], Case]
FAMILIES: dict[str, tuple[Template, ...]] = {
    "joins": joins.FAMILY,
    "changing": changing.FAMILY,
    "whole": changing.WHOLE,
    "outer": outer_joins.FAMILY,
    "subqueries": subqueries.FAMILY,
    "over": over.FAMILY,
    "stepping": stepping.FAMILY,
    "lists": lists_and_copies.FAMILY,
    "expressions": expressions.FAMILY,
    "mixtures": mixtures.FAMILY,
    "composed": composed.FAMILY,
    "decimals": expressions.DECIMAL_FAMILY,
}


@dataclass(frozen=True)
class Drawn:
    family: str
    number: int
    case: Case
    streams: Streams
    mode: str

    def judge(self) -> None:
        judge(self.case, self.streams, self.mode, random.Random(self.number))


def draw_case(family: str, number: int) -> Drawn:
    draw = random.Random(f"{family} {number}")
    streams = draw_streams(draw)
    case = draw.choice(FAMILIES[family])(draw, streams)
    return Drawn(family, number, case, streams, draw.choice(MODES))


def fails(drawn: Drawn) -> bool:
    try:
        drawn.judge()
    except Exception:
        return True
    return False


def shrunk(drawn: Drawn) -> Drawn:
    """The same with fewer rows, as long as it fails."""
    for mode in ("whole", "pushed"):
        if fails(plainer := replace(drawn, mode=mode)):
            drawn = plainer
            break
    smaller = True
    while smaller:
        smaller = False
        for name in drawn.case.streams:
            size = max(1, len(drawn.streams.rows[name]) // 2)
            while size:
                rows = drawn.streams.rows[name]
                for begin in range(0, len(rows), size):
                    fewer = replace(drawn, streams=drawn.streams.replaced(name, rows[:begin] + rows[begin + size :]))
                    if fails(fewer):
                        drawn, smaller = fewer, True
                        break
                else:
                    size //= 2
    for name in drawn.case.streams:
        for column in ("k", "x", "y", "f", "g", "d", "s", "l"):
            rows = [{**row, column: None} for row in drawn.streams.rows[name]]
            if fails(plainer := replace(drawn, streams=drawn.streams.replaced(name, rows))):
                drawn = plainer
    return drawn


def told(drawn: Drawn, error: str) -> str:
    """What can be pasted into Python."""
    try:
        drawn.judge()
    except Exception as now:
        error = f"{type(now).__name__}: {now}"
    streams = "".join(
        f'session.stream("{name}", pa.Table.from_pylist({_short(drawn.streams.rows[name])}, SCHEMA), time="ts")\n'
        for name in sorted(drawn.case.streams)
    )
    names = f'session.table("names", pa.Table.from_pylist({_short(drawn.streams.names)}, NAMES))\n'
    names = names if "names" in drawn.case.ours else ""
    return (
        f"# ---- family {drawn.family}, number {drawn.number}, rows came {drawn.mode}, "
        f"lateness {drawn.streams.lateness_us}\n"
        "import datetime, pyarrow as pa, watersmeet as wm\nfrom decimal import Decimal\n"
        "from tests.outsiders.data import NAMES, SCHEMA\nnan, inf = float('nan'), float('inf')\nsession ="
        " wm.Session()\n"
        f"{streams}{names}"
        f'query = session.sql("""{drawn.case.ours}""")\nprint(*query.to_arrow().to_pylist(), sep="\\n")\n'
        f"# DuckDB: {drawn.case.theirs}\n"
        + "".join(f"#   with {name}: {sql}\n" for name, sql in drawn.case.relations)
        + "\n".join(f"# {line}" for line in error.splitlines())
        + "\n"
    )


def _short(rows: list[dict[str, object]]) -> str:
    return "[" + ", ".join(str({name: value for name, value in row.items() if value is not None}) for row in rows) + "]"
