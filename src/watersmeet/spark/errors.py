"""Errors raised inside Spark's workers, brought back as what they were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from watersmeet import errors
from watersmeet.errors import WatersmeetError

_OURS = re.compile(r"watersmeet\.errors\.(\w+): (.*?)(?:\n\s*(?:at |JVM stacktrace|\n)|\Z)", re.DOTALL)


def ours_in(text: str) -> WatersmeetError | None:
    """The error of this library that a Spark exception's text carries, or None."""
    match = _OURS.search(text)
    kind = getattr(errors, match.group(1), None) if match else None
    if match is None or kind is None:
        return None
    message, _, hint = match.group(2).strip().partition("\nhint: ")
    made: WatersmeetError = kind(message.strip(), hint=hint.strip() or None)
    return made


@contextmanager
def friendly() -> Iterator[None]:
    """Turn a Spark failure that one of our errors caused back into that error."""
    try:
        yield
    except Exception as error:
        found = ours_in(str(error))
        if found is None:
            raise
        raise found from None
