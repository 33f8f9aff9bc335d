"""Section 6.4: what each approach holds. And two open ends of the paper: fewer negative tuples, and turns by memory."""

from __future__ import annotations

from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.h04.workload import (
    ITA,
    NTA,
    OWN_NTA,
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

MEMORY: Settings = {scale: {**WORKLOAD, "short": 1, "long": 50, **size} for scale, size in SIZES.items()}
MEMORY["small"] = {**MEMORY["small"], "short": 0.5, "long": 12, "seconds": 30}
NEGATIVES: Settings = {scale: {**WORKLOAD, **size} for scale, size in SIZES.items()}
TURNS: Settings = {
    "small": {**WORKLOAD, "rate": 40, "join_q5": 4.0, "seconds": 8, "window": 4},
    "paper": {**WORKLOAD, "rate": 60, "join_q5": 4.0, "seconds": 120},
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
        text = (
            f"SELECT COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales "
            f"[RANGE {trial.settings[size]} SECONDS] OPTIONS (pipeline = 'nta')"
        )
        found = weigh(session, text)
        numbers |= {f"bytes of aggregates, {size} window": found.aggregates, f"rows held, {size} window": found.rows}
    rows = Panel(
        "Rows held", "query", "rows", list(QUERIES), {k: [w.rows for w in v] for k, v in held.items()}, bars=True
    )
    data = Panel(
        "Bytes held", "query", "bytes", list(QUERIES), {k: [w.bytes for w in v] for k, v in held.items()}, bars=True
    )
    return Result([rows, data], numbers)


MEMORY_CHECKS = (
    Check(
        "TPA and ITA hold fewer rows than NTA in all queries",
        lambda result: all(min(factors(result, NTA, line)) > 1 for line in (TPA, ITA)),
    ),
    Check(
        "and fewer bytes",
        lambda result: all(min(factors(result, NTA, line, 1)) > 1 for line in (TPA, ITA)),
        degree=True,
        why="buffers are made with room to grow, which for small windows hides what they hold",
    ),
    Check(
        "under NTA the state of SUM, COUNT and AVG does not grow with the window",
        lambda result: (
            result.numbers["bytes of aggregates, long window"] == result.numbers["bytes of aggregates, short window"]
            and result.numbers["rows held, long window"] > 10 * result.numbers["rows held, short window"]
        ),
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
    Check("nowhere more are sent", lambda result: max(factors(result, OWN_NTA, NTA)) <= 1),
)


def run_turns(trial: ExperimentTrial) -> Result:
    """What waits between operators when everyone has a turn, and when those have it who free most."""
    waiting: dict[str, list[float]] = {schedule: [] for schedule in SCHEDULES}
    approaches = (TPA, NTA)
    for line in approaches:
        session = shop("Q5", trial.settings, trial.seed)
        for schedule in SCHEDULES:
            text = asked("Q5", line, trial.settings)[:-1] + f", schedule = '{schedule}')"
            run = PulledExecution(session.sql(text).plan)
            for _ in run.batches():
                pass
            waiting[schedule].append(float(run.metrics.work["queued_most"]))
    return Result([Panel("Most tuples in queues", "approach", "tuples", list(approaches), waiting, bars=True)])


TURNS_CHECKS = (
    Check(
        "who gives turns by memory lets at most half as many tuples wait",
        lambda result: max(factors(result, "memory", "round_robin")) <= 0.5,
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H04-M4",
        PAPER,
        "section 6.4: rows and bytes held by the five queries",
        "TPA and ITA hold less than NTA, under which however SUM, COUNT and AVG need no rows.",
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
)
