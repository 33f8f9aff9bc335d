"""What Python may say of a stream in groups: small values, each field of which is an option of the table in
`stream_options`. Every one may also be said alone, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, ClassVar

from watersmeet.errors import CatalogError

Interval = str | timedelta


@dataclass(frozen=True)
class _Group:
    # The options that are called otherwise.
    _options: ClassVar[Mapping[str, str]] = {}

    @property
    def words(self) -> dict[str, Any]:
        """What was said, by the names of options."""
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return {self._options.get(name, name): value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class EventTime(_Group):
    """The event time of a stream, how it is written, and how far rows may be from it.

    >>> EventTime("at", unit="ms", lateness="2 seconds").words
    {'time': 'at', 'time_unit': 'ms', 'lateness': '2 seconds'}
    """

    column: str
    unit: str | None = None
    format: str | None = None
    zone: str | None = None
    lateness: Interval | None = None
    idle: Interval | None = None
    max_future: Interval | None = None
    max_drift: Interval | None = None

    _options: ClassVar[Mapping[str, str]] = {
        "column": "time",
        "unit": "time_unit",
        "format": "time_format",
        "zone": "time_zone",
    }


@dataclass(frozen=True)
class RowPolicy(_Group):
    """What becomes of rows without an event time, of those that come too late, and of records that cannot be read."""

    null: str | None = None
    late: str | None = None
    bad: str | None = None

    _options: ClassVar[Mapping[str, str]] = {"null": "on_null", "late": "on_late", "bad": "on_bad"}


@dataclass(frozen=True)
class Hints(_Group):
    """What is known of a stream before its rows are seen. It guides plans and changes no answer."""

    rate: float | str | None = None
    distinct: Mapping[str, float] | None = None
    unique: str | Sequence[str] | None = None


def words_of(name: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a call, those of its groups among them; none may be said twice."""
    for word, kind in {"policy": RowPolicy, "hints": Hints}.items():
        if not isinstance(words.get(word), kind | None):
            raise CatalogError(
                f"the {word} of {name!r} is {words[word]!r}, not a {kind.__name__}",
                hint=f"write {word}={kind.__name__}(…), or say each word by its name",
            )
    alone = {word: value for word, value in words.items() if value is not None and not isinstance(value, _Group)}
    for group in (value for value in words.values() if isinstance(value, _Group)):
        twice = next((word for word in group.words if word in alone), None)
        if twice is not None:
            raise CatalogError(
                f"the {twice} of {name!r} is said twice",
                hint=f"leave out {twice}=…, or what {type(group).__name__} says",
            )
        alone |= group.words
    return alone
