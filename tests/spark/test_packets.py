"""Packets carry rows unchanged and say which format they are in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import random_cases
from tests.spark.kinds import every_kind
from watersmeet.errors import DataError
from watersmeet.hosts.spark.errors import friendly, ours_in
from watersmeet.hosts.spark.packets import VERSION, from_packet, to_packet


def test_a_packet_gives_back_its_batches():
    table = every_kind()
    batches = table.to_batches(2)
    assert pa.Table.from_batches(from_packet(to_packet(batches, table.schema))) == pa.Table.from_batches(batches)


@random_cases(50)
@given(st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=5), max_size=4))
def test_any_cut_into_batches_survives(pieces):
    schema = pa.schema([("b", pa.binary())])
    batches = [pa.RecordBatch.from_arrays([pa.array(piece, pa.binary())], schema=schema) for piece in pieces]
    assert [b.to_pylist() for b in from_packet(to_packet(batches, schema))] == [b.to_pylist() for b in batches]


def test_an_empty_packet_has_no_rows():
    schema = pa.schema([("x", pa.int64())])
    assert sum(batch.num_rows for batch in from_packet(to_packet([], schema))) == 0


def test_the_first_byte_is_the_version():
    assert to_packet([], pa.schema([]))[:1] == VERSION


def test_a_packet_of_another_version_is_refused_with_a_hint():
    packet = b"\x7f" + to_packet([], pa.schema([]))[1:]
    with pytest.raises(DataError, match=r"format b'\\x7f'.*\n?.*hint: run the query with the release"):
        from_packet(packet)


@pytest.mark.parametrize(
    "rest",
    [
        "\n\n\tat org.apache.spark.api.python.BasePythonRunner",
        "\n SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]",
        "\n=== Streaming Query ===\nIdentifier: [id = 1]",
        "",
    ],
    ids=["a stack", "error classes", "a query", "nothing"],
)
def test_an_error_of_ours_comes_back_out_of_sparks_text(rest):
    text = (
        "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File ...\n"
        "watersmeet.errors.DataError: stream 'a': the event time 'ts' is NULL in 2 rows\nhint: filter them"
    )
    found = ours_in(text + rest)
    assert isinstance(found, DataError)
    assert (found.message, found.hint) == ("stream 'a': the event time 'ts' is NULL in 2 rows", "filter them")


def test_errors_of_others_pass_through_unchanged():
    with pytest.raises(RuntimeError, match="disk"), friendly():
        raise RuntimeError("disk")
