"""When answers go into a sink: by themselves, as soon as the sink or the run wants them there."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import pyarrow as pa
import pytest

from watersmeet.hosts.local.durable.sink_writer import SinkWriter
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.runtime.run_settings import RunSettings

LONG_S = 20.0
ROWS = pa.record_batch({"x": [1]})
NONE = ROWS.slice(0, 0)


class Noting(NumberedSink):
    """A sink that remembers what it was given."""

    def __init__(self, **wishes: object) -> None:
        self.numbers: list[int] = []
        self.came = Event()
        self.__dict__ |= wishes

    def committed(self) -> int:
        return -1

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        self.numbers.append(number)
        self.came.set()


def flowing(sink: Noting, settings: RunSettings, befores: list[int] | None = None) -> SinkWriter:
    return SinkWriter(sink, settings, lambda error: None, ([] if befores is None else befores).append)


@pytest.mark.parametrize("answers", [[ROWS], [NONE, ROWS], [ROWS, NONE, NONE]])
def test_answers_are_committed_by_themselves_though_some_batches_of_them_are_empty(answers: list[pa.RecordBatch]):
    sink = Noting()
    flow = flowing(sink, RunSettings(commit_every_s=0.01))
    flow.put(0, answers)
    assert sink.came.wait(LONG_S)
    flow.close(commit=False)
    assert sink.numbers == [0]


def test_a_sink_whose_commits_take_little_has_answers_as_soon_as_they_are_there():
    quick, slow = Noting(commits_soon=True), Noting()
    for sink in (quick, slow):
        flowing(sink, RunSettings()).put(0, [ROWS])
    assert quick.came.wait(LONG_S)
    assert not slow.came.is_set()  # it waits for a second


@pytest.mark.parametrize(
    ("wishes", "said_s"), [({"commits_soon": True}, 1000.0), ({"commits_soon": True, "commit_every_s": 1000.0}, 0.0)]
)
def test_what_was_said_comes_before_what_a_sink_wants(wishes: dict[str, object], said_s: float):
    sink = Noting(**wishes)
    flow = flowing(sink, RunSettings(commit_every_s=said_s))
    flow.put(0, [ROWS])
    assert not sink.came.wait(0.2)
    flow.close(commit=True)
    assert sink.numbers == [0]


def test_what_comes_before_a_commit_is_done_before_each():
    befores: list[int] = []
    sink = Noting(commits_soon=True)
    flow = flowing(sink, RunSettings(), befores)
    flow.put(0, [NONE])
    flow.put(1, [ROWS])
    assert sink.came.wait(LONG_S)
    flow.close(commit=True)
    assert befores == [1]
    assert sink.numbers == [1]
