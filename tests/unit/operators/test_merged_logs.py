"""Logs of several parts become one: in the order of its instants, what leaves before what enters, in any blocks."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from watersmeet.operators.merged_logs import Log

CHANGES = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("-+")), max_size=8)
PARTS = st.lists(st.tuples(CHANGES, st.lists(st.integers(0, 8), max_size=3)), min_size=1, max_size=4)
Change = tuple[int, str, int]  # when, which way, and in which part


def block(changes: list[Change]) -> pa.RecordBatch:
    instants, signs, parts = zip(*changes, strict=True) if changes else ((), (), ())
    columns = [pa.array(signs, pa.string()), pa.array(instants, pa.timestamp("us")), pa.array(parts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["_op", "_ts", "part"])


def in_order(change: Change) -> tuple[int, bool]:
    return change[0], change[1] == "+"


@random_cases(100)
@given(PARTS, st.booleans())
def test_logs_are_merged_as_sorting_would(parts: list[tuple[list[tuple[int, str]], list[int]]], signed: bool) -> None:
    logs: list[list[Change]] = [
        sorted(((at, sign if signed else "+", number) for at, sign in changes), key=in_order)
        for number, (changes, _) in enumerate(parts)
    ]
    streams = []
    for log, (_, cuts) in zip(logs, parts, strict=True):
        ends = [*sorted(min(cut, len(log)) for cut in cuts), len(log)]
        streams.append(iter([block(log[a:b]) for a, b in zip([0, *ends], ends, strict=False)]))
    merged = list(Log(1, 0 if signed else None).merged(streams))
    found = [(at, sign, part) for one in merged for sign, at, part in _rows(one)]
    assert found == sorted((change for log in logs for change in log), key=lambda one: (*in_order(one), one[2]))


def _rows(batch: pa.RecordBatch) -> list[tuple[str, int, int]]:
    signs, instants, parts = batch.columns
    return list(zip(signs.to_pylist(), instants.cast(pa.int64()).to_pylist(), parts.to_pylist(), strict=True))
