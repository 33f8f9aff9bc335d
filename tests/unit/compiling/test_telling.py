"""Compiling many kernels is told as one thing, whose clock goes on from kernel to kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from watersmeet import noticing
from watersmeet.compiling import telling
from watersmeet.noticing import Phase


class Heard:
    def __init__(self) -> None:
        self.begun: list[Phase] = []
        self.ended: list[Phase] = []

    def begin(self, phase: Phase) -> None:
        self.begun.append(phase)

    def end(self, phase: Phase) -> None:
        self.ended.append(phase)


@pytest.fixture
def heard() -> Iterator[Heard]:
    one = Heard()
    before = noticing.listen(one)
    yield one
    noticing.listen(before)


def compiled(watch: telling.Watch, *, within: int = 0) -> None:
    watch.on_start(None)
    for _ in range(within):
        compiled(watch)
    watch.on_end(None)


def test_kernels_that_follow_each_other_are_one_phase(heard: Heard) -> None:
    watch = telling.Watch()
    for _ in range(3):
        compiled(watch, within=2)
    assert [str(one) for one in heard.begun] == ["compiling kernels (first time only, about 20 s)"]
    assert not heard.ended
    watch._close()
    assert heard.ended == heard.begun


def test_the_clock_goes_on_where_it_stood(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(telling.time, "monotonic", lambda: now)
    watch = telling.Watch()
    watch.on_start(None)
    now = 104.0
    watch.on_end(None)
    watch._close()
    now = 200.0
    watch.on_start(None)
    assert [one.started for one in heard.begun] == [100.0, 196.0]
    watch.on_end(None)
    watch._close()


def test_the_reason_is_told(heard: Heard) -> None:
    watch = telling.Watch()
    watch._because = "those that came along are for another Numba"
    compiled(watch)
    watch._close()
    assert "as those that came along are for another Numba" in str(heard.begun[0])


def test_a_clock_of_work_stands_while_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    watch = telling.Watch()
    monkeypatch.setattr(telling, "_watch", watch)
    monkeypatch.setattr(telling.time, "monotonic", lambda: now)
    before = telling.working_seconds()
    watch.on_start(None)
    now = 130.0
    assert telling.working_seconds() == before
    watch.on_end(None)
    now = 131.0
    assert telling.working_seconds() == before + 1.0
    watch._close()
