"""Queries of a script start one after the other, and again if their Python was too slow; none runs empty batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.hosts.spark.launching import query_start
from watersmeet.hosts.spark.launching.query_start import EMPTY_BATCHES, TRIES, start_in_turn

SLOW = Exception("[STREAM_FAILED] … org.apache.spark.SparkException: Python worker failed to connect back.")


class FakeQuery:
    """A query that comes under way, or fails, after so many looks at it."""

    def __init__(self, log: list[str], name: str, looks: int, error: Exception | None = None) -> None:
        self.log, self.name, self.looks, self.error = log, name, looks, error
        self.runId = name
        self.status = {"message": "Initializing sources", "isTriggerActive": True}
        log.append(f"{name} starts")

    @property
    def isActive(self) -> bool:  # noqa: N802
        self.looks -= 1
        return not (self.looks <= 0 and self.error is not None)

    @property
    def lastProgress(self) -> object | None:  # noqa: N802
        if self.looks > 0 or self.error is not None:
            return None
        self.log.append(f"{self.name} runs")
        return object()

    def exception(self) -> Exception | None:
        return self.error


class FakeConf:
    """The settings of a session: what somebody has set."""

    def __init__(self, **settings: str) -> None:
        self.getAll = dict(settings)
        self.set = self.getAll.__setitem__
        self.unset = self.getAll.__delitem__


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_start, "POLL_S", 0.0)


def started(name: str, queries: list[FakeQuery] | Any) -> Any:
    spark: Any = SimpleNamespace(conf=FakeConf())
    return start_in_turn(spark, name, lambda: next(queries), lambda: False)


def test_the_next_query_starts_when_the_one_before_it_runs() -> None:
    log: list[str] = []
    for name in "abc":
        started(name, (FakeQuery(log, name, 3) for _ in range(1)))
    assert list(dict.fromkeys(log)) == [f"{name} {what}" for name in "abc" for what in ("starts", "runs")]


def test_a_query_whose_python_was_too_slow_is_started_again_and_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    made = iter([FakeQuery(log, "first", 2, SLOW), FakeQuery(log, "second", 2)])
    assert started("pairs", made).name == "second"
    assert caplog.messages == ["pairs: its Python took more than the 10 s that Spark allows to start; trying again"]


def test_it_is_not_tried_for_ever() -> None:
    log: list[str] = []
    made = (FakeQuery(log, f"try {n}", 2, SLOW) for n in range(99))
    assert started("pairs", made).exception() is SLOW
    assert len([entry for entry in log if entry.endswith("starts")]) == TRIES


def test_a_query_that_fails_for_another_reason_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    assert started("pairs", (FakeQuery(log, "once", 2, ValueError("no such column")) for _ in range(9))).name == "once"
    assert log == ["once starts"]
    assert not caplog.messages


def test_a_query_that_never_runs_holds_up_the_others_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_start, "LONGEST_S", 0.05)
    log: list[str] = []
    assert started("slow", (FakeQuery(log, "slow", 10**9) for _ in range(1))).name == "slow"


@pytest.mark.parametrize("said", [{}, {EMPTY_BATCHES: "true"}])
def test_a_query_starts_without_empty_batches_and_others_of_the_session_keep_them(said: dict[str, str]) -> None:
    spark: Any = SimpleNamespace(conf=FakeConf(**said))
    log: list[str] = []

    def start() -> Any:
        log.append(spark.conf.getAll[EMPTY_BATCHES])
        return FakeQuery(log, "one", 1)

    start_in_turn(spark, "one", start, lambda: False)
    assert log[0] == "false"
    assert spark.conf.getAll == said
