"""Records that could not be read: how many, why, which was the first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import DataError
from watersmeet.model.catalog import Stream

SHOWN_BYTES = 60  # of the first record


class BadRecords:
    """The records of one stream that could not be read, as BAD_RECORDS of `io/connectors/contract.py` has them."""

    STATE = ("by_reason", "first")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.by_reason: dict[str, int] = {}
        self.first = ""  # where it lay and what is wrong with it, in a few words

    @property
    def count(self) -> int:
        return sum(self.by_reason.values())

    def add(self, records: pa.RecordBatch) -> None:
        if not self.first and records.num_rows:
            self.first = described(records)
        for entry in pc.value_counts(records.column("reason")):
            reason = entry["values"].as_py() or "unreadable"
            self.by_reason[reason] = self.by_reason.get(reason, 0) + entry["counts"].as_py()


def refusal(stream: Stream, records: pa.RecordBatch) -> DataError:
    """What ends a run whose stream says nothing of bad records, or on_bad = 'error'."""
    reason = records.column("reason")[0].as_py() or "unreadable"
    others = f", and {records.num_rows - 1:,} more behind it" if records.num_rows > 1 else ""
    return DataError(
        f"stream {stream.name!r} has a record that cannot be read ({reason}): {described(records)}{others}",
        hint="on_bad = 'skip' in WITH (…) leaves such records out and counts them, on_bad = 'sink NAME' keeps them in "
        "a sink; with the same checkpoint the run goes on where it was",
    )


def described(records: pa.RecordBatch) -> str:
    """Where the first record lay, what is wrong with it, and how it begins."""
    first = records.slice(0, 1).to_pylist()[0]
    where = [first["place"] or "its source"]
    if first["partition"] is not None:
        where.append(f"partition {first['partition']}")
    if first["offset"] is not None:
        what = "row" if first["partition"] is None else "offset"
        where.append(f"{what} {first['offset']:,}")
    detail = f": {first['detail']}" if first["detail"] else ""
    return f"in {', '.join(where)}{detail}{_beginning(first['raw'])}"


def _beginning(raw: bytes | None) -> str:
    if raw is None:
        return ""
    shown = raw[:SHOWN_BYTES].decode("utf-8", errors="backslashreplace")
    more = "…" if len(raw) > SHOWN_BYTES else ""
    return f"; it is {shown!r}{more}"
