"""What many calls push is one step of a batch, and the journal gives back what was written."""

import pyarrow as pa

from watersmeet.hosts.local.durable.batches import BatchRecord, Step, together
from watersmeet.hosts.local.durable.idempotency import IdempotencyKey
from watersmeet.io.connectors.contract import SourceBatch

SCHEMA = pa.schema([("id", pa.int64())])


def pushed(stream: str, *ids: int, key: IdempotencyKey | None = None) -> Step:
    rows = pa.RecordBatch.from_arrays([pa.array(ids, pa.int64())], schema=SCHEMA)
    return Step("pushed", stream, SourceBatch(rows), keys=() if key is None else ((key, len(ids)),))


def told(steps: list[Step]) -> list[tuple[str, list[int]]]:
    return [(step.stream, [] if step.batch is None else step.batch.rows.column(0).to_pylist()) for step in steps]


def test_pushes_of_a_stream_are_one_step_in_their_order() -> None:
    steps = [pushed("a", 1), pushed("b", 2), pushed("a", 3, 4), pushed("b", 5)]
    assert told(together(steps)) == [("a", [1, 3, 4]), ("b", [2, 5])]


def test_nothing_moves_past_what_is_said_of_time() -> None:
    steps = [pushed("a", 1), Step("promise", "b", until_us=9), pushed("a", 2), Step("end", "b"), pushed("a", 3)]
    assert told(together(steps)) == [("a", [1]), ("b", []), ("a", [2]), ("b", []), ("a", [3])]


def test_every_key_keeps_its_own_rows() -> None:
    first, second = IdempotencyKey("k1", None, "d1"), IdempotencyKey("client", 7, "d2")
    (step,) = together([pushed("a", 1, 2, key=first), pushed("a", 3), pushed("a", 4, 5, 6, key=second)])
    data = b"".join(bytes(part) for part in BatchRecord(3, 1.5, 9, [step], 7).parts())
    (again,) = BatchRecord.from_bytes(3, data, {"a": SCHEMA}).steps
    assert list(again.keys) == [(first, 2), (second, 3)]
    assert again.batch == step.batch


def test_what_was_read_is_known_by_where_it_lies() -> None:
    batch = SourceBatch(
        pa.RecordBatch.from_pylist([{"id": 1}], SCHEMA), range=["p", 0, 1], partition="p", waiting=("q",)
    )
    data = b"".join(bytes(part) for part in BatchRecord(3, 1.5, 9, [Step("read", "a", batch)], 7).parts())
    (again,) = BatchRecord.from_bytes(3, data, {"a": SCHEMA}).steps
    assert again.batch is not None
    assert (again.batch.range, again.batch.partition, again.batch.waiting) == (["p", 0, 1], "p", ("q",))
    assert again.num_rows == 0  # until it is read again
