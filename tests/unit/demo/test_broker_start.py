"""Why a broker is not there."""

from __future__ import annotations

from watersmeet.demo.broker import _why_not


def test_what_a_broker_says_is_why_only_if_it_has_ended() -> None:
    assert _why_not(True, "SLF4J: no binder\nport 9092 is taken\n") == "SLF4J: no binder\nport 9092 is taken"
    assert _why_not(False, "SLF4J: no binder\n") == "it did not answer within 60 s"
