"""Statements of other engines that are taken stay so, and the others are refused with what to write."""

from __future__ import annotations

from collections import Counter

from tests.peers import refused, statements

TAKEN = {"RisingWave": 60, "Materialize": 23, "Arroyo": 17, "ksqlDB": 15, "Flink": 15}


def test_so_many_are_taken_as_they_stand_and_the_others_are_told_apart() -> None:
    told = [(whose, refused(statement)) for whose, statement in statements()]
    assert Counter(whose for whose, error in told if error is None) == TAKEN
    refusals = [error for _, error in told if error is not None]
    assert [str(error) for error in refusals if getattr(error, "hint", None) is None] == []
    assert [str(error) for error in refusals if getattr(error, "span", None) is None] == []
