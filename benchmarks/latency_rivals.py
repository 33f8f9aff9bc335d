"""How long answers take under the same open-loop load here and elsewhere: in-process, Esper, Flink, Spark.

Rows are sent when they are due whether or not an engine keeps up, as in `benchmarks.latency`; an answer is waited for
since the last of its rows was due. The first seconds fill the windows and are not timed. Number and checksum of the
answers must be those of DuckDB, or, where there are too many for that, those of all other engines. An engine that has
not answered all rows some seconds after the last was due has fallen behind; it is not asked at higher rates.

    python -m benchmarks.latency_rivals [--seconds 5] [--rates 1000,10000,100000] [--engines 'in-process;Esper']

What was measured before for as long, at other rates or of other engines and queries, stays in the table. Engines in
Java are downloaded by Maven at the first run. What each figure includes is told in docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.rivals import dialects, in_process, jvm, spark_process
from benchmarks.rivals.load import QUERIES, Compared, Outcome, Query, Sending, expected

Run = Callable[[Sending, Path], Outcome]


@dataclass(frozen=True)
class Engine:
    name: str
    opened: Callable[[ExitStack], Run]  # raises MissingError
    groups: Compared  # which answers it gives to a GROUP BY


def our_process(closing: ExitStack) -> Run:
    return in_process.run


def in_java(name: str, main: str, text: Callable[[Query], str], closing: ExitStack) -> Run:
    jars = jvm.fetched(name)
    classes = jvm.compiled(name, ["Load.java", "Answers.java", f"{main}.java"], jars)
    return lambda sending, folder: jvm.run(main, text(sending.query), f"{classes}{os.pathsep}{jars}", sending, folder)


GRACE_S = 5.0  # after the last row was due
ENGINES = (
    Engine("in-process", our_process, "all"),
    Engine("Esper", partial(in_java, "esper", "EsperRun", dialects.esper), "all"),
    Engine("Flink", partial(in_java, "flink", "FlinkRun", dialects.flink), "arrivals"),
    Engine("ours on Spark", partial(spark_process.opened, "ours"), "all"),
    Engine("Spark's own", partial(spark_process.opened, "own"), "rows"),
)
CHECKED_BY: dict[Compared, str] = {"all": "DuckDB", "arrivals": "DuckDB, as rows arrive", "rows": "number of rows"}
HEAD = f"{'query':14} {'engine':16} {'rows/s':>8} {'answers':>11} {'p50 ms':>9} {'p99 ms':>9} {'p99.9 ms':>9}"


def measured(engine: Engine, rates: list[int], queries: list[Query], seconds: float) -> Iterator[dict[str, Any]]:
    """One engine at all rates, from the lowest on."""
    with ExitStack() as closing:
        try:
            run = engine.opened(closing)
        except jvm.MissingError as missing:
            print(f"{engine.name} is left out: {missing}", flush=True)
            yield {"engine": engine.name, "left_out": str(missing)}
            return
        for query in queries:
            for rate in sorted(rates):
                one = tried(engine, run, Sending(query, rate, seconds, GRACE_S))
                print(line(one), flush=True)
                yield one
                if one.get("behind"):
                    break


def tried(engine: Engine, run: Run, sending: Sending) -> dict[str, Any]:
    about = {"engine": engine.name, "query": sending.query.name, "rate": sending.rate}
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rivals-"))
    try:
        got = run(sending, folder)
    except jvm.FailedError as error:
        return about | {"failed": str(error)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    compared: Compared = engine.groups if sending.query.groups else "all"
    return about | judged(sending, got, compared) | {"took_s": round(time.monotonic() - began, 1)}


def judged(sending: Sending, got: Outcome, compared: Compared) -> dict[str, Any]:
    """The figures of a run if its answer is right, or unfinished."""
    behind = got.rows < sending.rows
    right = None if behind else expected(sending, compared)
    if right is not None and right != (got.answers, got.checksum):
        return {
            "failed": f"{got.answers:,} answers with checksum {got.checksum} are not "
            f"the {right[0]:,} with checksum {right[1]} that are right"
        }
    told = {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(got).items()}
    checked = "not compared" if behind else CHECKED_BY[compared] if right else "the others"
    return {**told, "behind": behind, "checked_by": checked}


def check_each_other(found: list[dict[str, Any]]) -> None:
    """Where DuckDB was not asked, all engines must give the same."""
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for one in found:
        if one.get("checked_by") == "the others":
            first = seen.setdefault((one["query"], one["rate"]), one)
            if (first["answers"], first["checksum"]) != (one["answers"], one["checksum"]):
                one["failed"] = (
                    f"{one['answers']:,} answers with checksum {one['checksum']} are not the {first['answers']:,} with "
                    f"checksum {first['checksum']} of {first['engine']}"
                )
                print(line(one))


def line(one: dict[str, Any]) -> str:
    told = f"{one['query']:14} {one['engine']:16} {one['rate']:8,} "
    if "failed" in one:
        return told + one["failed"]
    told += f"{one['answers']:11,} " + " ".join(f"{one[name]:9.2f}" for name in ("p50_ms", "p99_ms", "p99_9_ms"))
    return told + ("   fell behind" if one["behind"] else "")


def table(figures: list[dict[str, Any]], rates: list[int]) -> str:
    """Percentiles of each engine, a column for each rate, for the docs."""
    lines = [f"| | | {' | '.join(f'{rate:,} rows/s' for rate in rates)} |", f"|---|---|{'---|' * len(rates)}"]
    asked = {one["query"] for one in figures if "query" in one}
    for query in (one.name for one in QUERIES if one.name in asked):
        for engine in (one.name for one in ENGINES):
            of = {one["rate"]: one for one in figures if (one["engine"], one.get("query")) == (engine, query)}
            if of:
                cells = " | ".join(_cell(of.get(rate)) for rate in rates)
                lines.append(f"| {query} | {engine} | {cells} |")
    return "\n".join(lines)


def _cell(one: dict[str, Any] | None) -> str:
    if one is None:
        return "not tried"
    if "failed" in one:
        return "failed"
    if one["behind"]:
        return f"fell behind: {one['rows']:,} rows answered in time" if "rows" in one else "fell behind"
    return " / ".join(f"{one[name]:,.1f}" for name in ("p50_ms", "p99_ms", "p99_9_ms"))


def told(found: dict[str, Any], rates: list[int] | None = None) -> str:
    """The table, and in what circumstances it came about."""
    figures = found["figures"]
    rates = rates or sorted({one["rate"] for one in figures if "rate" in one})
    load = f"{found['load']:.1f} on {found['cores']} cores"
    left_out = [f" {one['engine']} was left out: {one['left_out']}." for one in figures if "left_out" in one]
    return (
        f"{table(figures, rates)}\n\nMilliseconds: median / 99 % / 99.9 % of the answers of {found['seconds']:g} s. "
        f"The load of the machine before was {load}.{''.join(left_out)} {found.get('note', '')}".rstrip()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of rows that are timed")
    parser.add_argument("--rates", default="1000,10000,100000")
    parser.add_argument("--engines", default=";".join(one.name for one in ENGINES), help="parted by semicolons")
    parser.add_argument("--queries", default=";".join(one.name for one in QUERIES), help="parted by semicolons")
    parser.add_argument("--json", type=Path, default=RESULTS / "latency_rivals.json")
    parser.add_argument("--table", action="store_true", help="print what was measured before, and measure nothing")
    asked = parser.parse_args()
    if asked.table:
        print(told(json.loads(asked.json.read_text())))
        return
    engines = chosen(asked.engines, {one.name: one for one in ENGINES}, "engine")
    queries = chosen(asked.queries, {one.name: one for one in QUERIES}, "query")
    rates = [int(one) for one in asked.rates.split(",")]
    found: dict[str, Any] = {
        "seconds": asked.seconds,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "figures": [],
    }
    found["figures"] = figures = others_before(asked.json, found, engines, queries, rates)
    print(HEAD)
    for engine in engines:
        figures += measured(engine, rates, queries, asked.seconds)
        keep(asked.json, found)
    check_each_other(figures)
    keep(asked.json, found)
    print(f"\n{told(found)}")
    if any("failed" in one for one in figures):
        raise SystemExit("some runs failed or gave other answers: see above")


def others_before(
    path: Path, found: dict[str, Any], engines: list[Engine], queries: list[Query], rates: list[int]
) -> list[dict[str, Any]]:
    """What is not measured again; the load that is told is the highest of both runs."""
    if not path.exists():
        return []
    before = json.loads(path.read_text())
    if any(before[one] != found[one] for one in ("seconds", "cores")):
        return []
    again = ({one.name for one in engines}, {one.name for one in queries}, set(rates))
    kept = [one for one in before["figures"] if not _is_asked(one, *again)]
    if kept:
        found["load"] = max(found["load"], before["load"])
    return kept


def _is_asked(one: dict[str, Any], engines: set[str], queries: set[str], rates: set[int]) -> bool:
    """One that was left out has neither query nor rate."""
    return one["engine"] in engines and ("rate" not in one or (one["query"] in queries and one["rate"] in rates))


def keep(path: Path, found: dict[str, Any]) -> None:
    """A line for each figure."""
    about = {name: value for name, value in found.items() if name != "figures"}
    lines = ",\n".join(f"  {json.dumps(one)}" for one in found["figures"])
    path.write_text(f'{json.dumps(about)[:-1]}, "figures": [\n{lines}\n]}}\n')


def chosen(names: str, known: dict[str, Any], what: str) -> list[Any]:
    unknown = [one for one in names.split(";") if one not in known]
    if unknown:
        raise SystemExit(f"there is no {what} {unknown[0]!r}; there are {'; '.join(known)}")
    return [known[one] for one in names.split(";")]


if __name__ == "__main__":
    main()
