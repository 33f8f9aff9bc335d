"""Ctrl-C while Spark starts and plans."""

from __future__ import annotations

import logging
import signal

import pytest

from watersmeet.cli import ctrl_c_on_spark


def test_an_interrupted_call_is_not_told_and_everything_else_is(caplog: pytest.LogCaptureFixture) -> None:
    with ctrl_c_on_spark.without_tracebacks():
        logging.error("KeyboardInterrupt while sending command.")
        logging.error("Exception while sending command.")
    assert [one.message for one in caplog.records] == ["Exception while sending command."]
    logging.error("KeyboardInterrupt while sending command.")
    assert len(caplog.records) == 2


def test_a_call_in_the_midst_of_another_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with ctrl_c_on_spark.without_tracebacks():
        try:
            try:
                raise RuntimeError("reentrant call inside <_io.BufferedReader name=5>")
            except RuntimeError:
                raise OSError("Error while sending or receiving")  # noqa: B904 as py4j does
        except OSError:
            logging.exception("Exception while sending command.")
    assert caplog.records == []


def test_ctrl_c_is_taken_back_from_whoever_took_it() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        ctrl_c_on_spark.take_back()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
