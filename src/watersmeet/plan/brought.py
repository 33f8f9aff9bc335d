"""The functions of users that a plan calls, wherever they stand in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from watersmeet.model.catalog import Stream, Table
from watersmeet.plan.user_functions import UserFunction


def brought_in(plan: Any) -> dict[str, UserFunction]:
    """By name in lower case, as a catalog has them. All parts of a plan are looked at, whatever kinds there are."""
    return {one.name.lower(): one for one in _found(plan)}


def _found(thing: Any) -> Iterator[UserFunction]:
    if isinstance(thing, UserFunction):
        yield thing
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from _found(one)
    # Streams and tables call nothing, and hold what is large.
    elif is_dataclass(thing) and not isinstance(thing, Stream | Table):
        for field in fields(thing):
            yield from _found(getattr(thing, field.name))
