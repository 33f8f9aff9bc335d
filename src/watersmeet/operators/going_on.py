"""An end that was none: all that waited was answered, and then more comes after all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import pyarrow as pa

from watersmeet.operators.contract import End, Operator
from watersmeet.operators.saving import Saved


def answered_all(
    operator: Operator, aliases: Iterable[str], newest_us: int, fresh: Callable[[], Operator]
) -> Generator[pa.RecordBatch, None, tuple[End, Operator]]:
    """What waits in an operator, answered; returns the operator to go on with. One that has come to its end for good is
    made anew as it was before it, and time goes on in it up to what was answered: what that gives was given."""
    before = None if operator.goes_on else Saved.from_bytes(operator.save(tables=False).to_bytes())
    end = yield from operator.finish(newest_us)
    if before is None:
        return end, operator
    again = fresh()
    again.load(before)
    again.pass_end(end, aliases)
    return end, again
