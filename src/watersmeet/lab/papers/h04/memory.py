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
AGGREGATES = (
    "SELECT COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean FROM sales [RANGE {} SECONDS] "
    "OPTIONS (pipeline = '{}')"
)
IN_AGGREGATE = "tuples in SUM, COUNT and AVG, {}, {} window"
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
        why="it is not integrated here: windows are held once by W-EXPIRE and once by the join",
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
)
