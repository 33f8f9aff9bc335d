"""Statements of other engines that are taken stay so, and the others are refused with what to write."""

from __future__ import annotations

from collections import Counter

from tests.peers import refused, statements

TAKEN = {"RisingWave": 58, "Materialize": 22, "Arroyo": 11, "ksqlDB": 6, "Flink": 12}
WITHOUT_HINT = 4


def test_so_many_are_taken_as_they_stand_and_the_others_are_told_apart() -> None:
    told = [(whose, refused(statement)) for whose, statement in statements()]
    assert Counter(whose for whose, error in told if error is None) == TAKEN
    refusals = [error for _, error in told if error is not None]
    assert sum(getattr(error, "hint", None) is None for error in refusals) <= WITHOUT_HINT
