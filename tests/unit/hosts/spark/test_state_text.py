"""What a checkpoint remembers, as text: streams by name, a state that is kept whole, 80 columns; and change logs."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from watersmeet.hosts.spark.bucket.log import Manifest, Segment
from watersmeet.hosts.spark.checkpoints.state import BucketState, State
from watersmeet.hosts.spark.checkpoints.state_files import NotReadableError, changes_in, unpacked

DAY_US = 86_400_000_000
ROWS = pa.table({"k": [1], "ts": pa.array([DAY_US], pa.timestamp("us"))})


def test_streams_have_their_names_and_lines_fit() -> None:
    logs = {0: [Segment(0, 1_208_000, DAY_US, 29_473_000)], 1: [Segment(1, 1, 2 * DAY_US, 512)], 2: list[Segment]()}
    bucket = BucketState(0, 10, Manifest(DAY_US, 2, logs), {0: ROWS}, names=("c (clicks)", "o (orders)"))
    text = State("ck", "4-abc", (bucket,)).describe(rows=1)
    assert (
        text
        == """\
ck: 1 bucket
bucket 0: version 10, complete until 1970-01-02 00:00:00.000000
  c (clicks)  1,208,000 rows  29.5 MB  1970-01-02 00:00:00 to 00:00:00
  o (orders)           1 row    512 B        up to 1970-01-03 00:00:00
  input 2             0 rows      0 B
c (clicks): k, ts
  1, 1970-01-02 00:00:00"""
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_state_that_is_kept_whole_is_shown() -> None:
    bucket = BucketState(3, 2, Manifest(DAY_US, 1, saved=Segment(0, 500, DAY_US, 12_000)), {}, names=("a", "b"))
    other = BucketState(0, 2, Manifest(DAY_US), {}, stage=1)
    state = State("ck", None, (bucket, other))
    text = state.describe(rows=1)
    assert "stage 0, bucket 3: version 2" in text
    assert "  kept whole  500 rows  12 kB  up to 1970-01-02 00:00:00" in text
    assert "rows of a state that is kept whole cannot be shown one by one" in text
    (line,) = state.summary().to_pylist()
    assert (line["input"], line["stream"], line["rows"]) == (-1, "kept whole", 500)


def packed(data: bytes) -> bytes:
    """As Spark packs its logs, in two blocks: one as it is, one made smaller; then an empty one."""
    half = len(data) // 2
    small = pa.Codec("lz4_raw").compress(data[half:]).to_pybytes()
    head = struct.Struct("<8sBiii")
    return (
        head.pack(b"LZ4Block", 0x15, half, half, 0) + data[:half]
        + head.pack(b"LZ4Block", 0x25, len(small), len(data) - half, 0) + small
        + head.pack(b"LZ4Block", 0x15, 0, 0, 0)
    )  # fmt: skip


def record(kind: int, key: bytes, value: bytes | None) -> bytes:
    size = struct.pack(">i", -1 if value is None else len(value))
    return bytes([kind]) + struct.pack(">i", len(key)) + key + size + (value or b"")


def test_a_change_log_gives_what_was_written_and_what_went() -> None:
    data = b"\0\2v2" + record(1, b"key", b"value" * 100) + record(0x10, b"gone", None) + b"\0"
    assert unpacked(packed(data)) == data
    assert list(changes_in(packed(data))) == [(b"key", b"value" * 100), (b"gone", None)]


@pytest.mark.parametrize(
    ("log", "why"),
    [(b"zstd", "not packed by LZ4"), (packed(b"\0\2v1" + b"\0" * 20), "another format"),
     (packed(b"\0\2v2" + record(7, b"k", b"v") + b"\0"), "another kind")],
)  # fmt: skip
def test_a_log_that_is_not_known_is_left_to_spark(log: bytes, why: str) -> None:
    with pytest.raises(NotReadableError, match=why):
        list(changes_in(log))
