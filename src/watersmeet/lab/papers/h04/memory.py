"""Section 6.4: what each approach holds. And two open ends of the paper: fewer negative tuples, and turns by memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h04.workload import (
    ITA,
    NTA,
    OWN_NTA,
    OWN_TPA,
    PAPER,
    PIPELINES,
    QUERIES,
    SIZES,
    TPA,
    WORKLOAD,
    Settings,
    asked,
    factors,
    shop,
)
from watersmeet.lab.papers.running import Weighed, negatives_sent, weigh
from watersmeet.model.catalog import Stream
from watersmeet.session import Session

MEMORY: Settings = {scale: {**WORKLOAD, "short": 1, "long": 50, **size} for scale, size in SIZES.items()}
MEMORY["small"] = {**MEMORY["small"], "short": 0.5, "long": 12, "seconds": 30}
NEGATIVES: Settings = {scale: {**WORKLOAD, **size} for scale, size in SIZES.items()}
TURNS: Settings = {
    "small": {**WORKLOAD, "rate": 40, "join_q5": 4.0, "seconds": 8, "window": 4},
    "paper": {**WORKLOAD, "rate": 60, "join_q5": 4.0, "seconds": 120},
}
AGGREGATES = (
    "SELECT COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales [RANGE {} SECONDS] "
    "OPTIONS (pipeline = '{}')"
)
IN_AGGREGATE = "tuples in SUM, COUNT and AVG, {}, {} window"
MANY: Settings = {
    "small": {**WORKLOAD, "rate": 40, "join_q5": 4.0, "seconds": 8, "window": 2, "queries": (1, 2, 4)},
    "paper": {**WORKLOAD, "rate": 60, "join_q5": 4.0, "seconds": 60, "window": 5, "queries": (1, 2, 4, 8)},
}
SCHEDULES = ("round_robin", "memory")


def run_memory(trial: ExperimentTrial) -> Result:
    """The most that each query held; and the aggregates of one with a short window and a long one."""
    held: dict[str, list[Weighed]] = {line: [] for line in PIPELINES}
    for place, query in enumerate(QUERIES):
        session = shop(query, trial.settings, trial.seed)
        for line in PIPELINES:
            trial.tell(place, len(QUERIES))
            held[line].append(weigh(session, asked(query, line, trial.settings)))
    session = shop("Q1", trial.settings, trial.seed)
    numbers: dict[str, float] = {}
    for size in ("short", "long"):
        for line in (TPA, NTA):
            found = weigh(session, AGGREGATES.format(trial.settings[size], PIPELINES[line]))
            numbers[IN_AGGREGATE.format(line, size)] = found.in_aggregates
    rows = Panel(
        "Rows held", "query", "rows", list(QUERIES), {k: [w.rows for w in v] for k, v in held.items()}, bars=True
    )
    data = Panel(
        "Bytes held", "query", "bytes", list(QUERIES), {k: [w.bytes for w in v] for k, v in held.items()}, bars=True
    )
    return Result([rows, data], numbers)


def _grows(result: Result, line: str) -> float:
    short, long = (result.numbers[IN_AGGREGATE.format(line, size)] for size in ("short", "long"))
    return long / max(short, 1.0)


MEMORY_CHECKS = (
    Check(
        "TPA and ITA hold fewer rows than NTA in all queries",
        lambda result: all(min(factors(result, NTA, line)) > 1 for line in (TPA, ITA)),
        words="TPA and ITA use lower memory during execution compared to NTA",
    ),
    Check(
        "and fewer bytes",
        lambda result: all(min(factors(result, NTA, line, 1)) > 1 for line in (TPA, ITA)),
        elsewhere="by bytes: buffers are made with room to grow, which for small windows hides what they hold",
    ),
    Check(
        "SUM, COUNT and AVG hold no tuple under NTA, however long the window; under TPA they hold those of the window",
        lambda result: (
            max(result.numbers[IN_AGGREGATE.format(NTA, size)] for size in ("short", "long")) == 0
            and _grows(result, TPA) > 10
        ),
        words="Instead of storing a whole window of tuples in the case of TPA and ITA, it reduces to storing a single "
        "value",
    ),
    Check(
        "W-EXPIRE below W-JOIN (Q4) takes no memory of its own: NTA holds as many rows as TPA, within a tenth",
        lambda result: factors(result, NTA, TPA)[3] <= 1.1,
        words="the W-Expire operator can be integrated as part of the join buffers in W-Join queries. Therefore, "
        "W-Expire will incur no additional memory.",
        degree=True,
        why="as printed W-EXPIRE holds windows of its own; it is part of the join's buffers in the engine's own `nta`",
    ),
)


def run_negatives(trial: ExperimentTrial) -> Result:
    """How many rows the windows of each query sent once more, as printed and here."""
    sent: dict[str, list[float]] = {NTA: [], OWN_NTA: []}
    for query in QUERIES:
        session = shop(query, trial.settings, trial.seed)
        for line, found in sent.items():
            found.append(float(negatives_sent(session, asked(query, line, trial.settings))))
    return Result([Panel("Negative tuples", "query", "sent by windows", list(QUERIES), sent, bars=True)])


NEGATIVES_CHECKS = (
    Check(
        "where rows are selected (Q1 and Q4) fewer than half as many are sent",
        lambda result: all(factors(result, OWN_NTA, NTA)[place] < 0.5 for place in (0, 3)),
    ),
    Check(
        "where rows are joined, with a table or with a stream, those that end no combination are not sent (Q2 to Q5)",
        lambda result: max(factors(result, OWN_NTA, NTA)[1:]) < 1,
    ),
    Check("nowhere more are sent", lambda result: max(factors(result, OWN_NTA, NTA)) <= 1),
)


def run_turns(trial: ExperimentTrial) -> Result:
    """What waits between operators when everyone has a turn, and when those have it who free most."""
    waiting: dict[str, list[float]] = {schedule: [] for schedule in SCHEDULES}
    approaches = (TPA, NTA)
    for line in approaches:
        session = shop("Q5", trial.settings, trial.seed)
        for schedule in SCHEDULES:
            ((most, _),) = queued(session, [scheduled("Q5", line, schedule, trial.settings)])
            waiting[schedule].append(most)
    return Result([Panel("Most tuples in queues", "approach", "tuples", list(approaches), waiting, bars=True)])


def run_many(trial: ExperimentTrial) -> Result:
    """The same in several queries, of windows of different sizes, that are fed by one reading."""
    counts = trial.settings["queries"]
    waiting: dict[str, list[float]] = {schedule: [] for schedule in SCHEDULES}
    told: dict[tuple[str, int], list[int]] = {}
    session = shop("Q5", trial.settings, trial.seed)
    for done, count in enumerate(counts):
        trial.tell(done, len(counts))
        for schedule in SCHEDULES:
            found = queued(session, [scheduled("Q5", TPA, schedule, its) for its in narrower(trial, count)])
            waiting[schedule].append(sum(most for most, _ in found))
            told[schedule, count] = [changes for _, changes in found]
    read = [rows_read(session, [asked("Q5", OWN_TPA, its) for its in narrower(trial, count)]) for count in counts]
    differ = sum(told[SCHEDULES[0], count] != told[SCHEDULES[1], count] for count in counts)
    return Result(
        [Panel("Most tuples in the queues of all queries, by TPA", "queries", "tuples", counts, waiting)],
        {
            "answers that differ by schedule": float(differ),
            "rows read for one query": read[0],
            "rows read for the most queries": read[-1],
        },
    )


def scheduled(query: str, line: str, schedule: str, settings: Mapping[str, Any]) -> str:
    return asked(query, line, settings)[:-1] + f", schedule = '{schedule}')"


def narrower(trial: ExperimentTrial, count: int) -> list[Mapping[str, Any]]:
    """So many windows, each half as long as the one before."""
    return [{**trial.settings, "window": trial.settings["window"] / 2**number} for number in range(count)]


def rows_read(session: Session, queries: Sequence[str]) -> float:
    """How many rows are read for queries that are fed together: of streams that can be read once, and count that."""
    read: list[int] = []
    over = Session()

    def batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=256):
            read.append(batch.num_rows)
            yield batch

    for name in session.catalog.names():
        relation = session.catalog.find(name)
        assert relation is not None
        table = pa.Table.from_batches(list(relation.source.batches(1 << 30)), relation.schema)
        if isinstance(relation, Stream):
            over.stream(name, pa.RecordBatchReader.from_batches(table.schema, batches(table)), time="ts")
        else:
            over.table(name, table)
    fed(over, queries)
    return float(sum(read))


def queued(session: Session, queries: Sequence[str]) -> list[tuple[float, int]]:
    """Of queries that are fed together: the most tuples in the queues of each, and how many changes it told."""
    return [(float(run.metrics.work["queued_most"]), run.metrics.results) for run in fed(session, queries)]


def fed(session: Session, queries: Sequence[str]) -> list[PulledExecution]:
    runs = [PulledExecution(session.sql(text).plan) for text in queries]
    for _ in Pull(runs).answers():
        pass
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return runs


TURNS_CHECKS = (
    Check(
        "who gives turns by memory lets at most half as many tuples wait",
        lambda result: max(factors(result, "memory", "round_robin")) <= 0.5,
    ),
)
MANY_CHECKS = (
    Check(
        "in any number of queries who gives turns by memory lets at most half as many tuples wait",
        lambda result: max(factors(result, "memory", "round_robin")) <= 0.5,
    ),
    Check(
        "these share what comes before their operators: rows are read once, however many ask",
        lambda result: result.numbers["rows read for the most queries"] == result.numbers["rows read for one query"],
    ),
    Check(
        "the order of turns changes no answer",
        lambda result: result.numbers["answers that differ by schedule"] == 0,
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-M4",
        PAPER,
        "section 6.4: rows and bytes held by the five queries",
        "TPA and ITA use lower memory during execution compared to NTA. However, NTA has many desirable properties in "
        "terms of memory usage",
        MEMORY,
        run_memory,
        MEMORY_CHECKS,
    ),
    Experiment(
        "H04-O1",
        PAPER,
        "section 3.2.2, left open: negative tuples sent by windows",
        "Negative tuples that no operator above needs can be left out.",
        NEGATIVES,
        run_negatives,
        NEGATIVES_CHECKS,
    ),
    Experiment(
        "H04-O2",
        PAPER,
        "section 6.4, left open: tuples that wait in queues",
        "The approaches can be scheduled so that little memory is taken by queues.",
        TURNS,
        run_turns,
        TURNS_CHECKS,
    ),
    Experiment(
        "H04-O2s",
        PAPER,
        "section 6.4, left open: tuples that wait in the queues of several queries",
        "To optimize memory usage by the operators' queues, techniques of other work can be used.",
        MANY,
        run_many,
        MANY_CHECKS,
        note="Only H04's operators as printed have queues between them. Between the engine's own nothing waits: what "
        "an operator makes of a piece of rows is pushed through those above it before the next piece is read.",
    ),
)
