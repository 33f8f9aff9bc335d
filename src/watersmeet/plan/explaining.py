"""How a plan is to be told."""

from __future__ import annotations

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError

FORMATS = ("text", "json", "svg", "html")
_LISTED = ", format=".join(map(repr, FORMATS[:-1])) + f" or format={FORMATS[-1]!r}"


@dataclass(frozen=True)
class Explaining:
    """How a plan is to be told: as text, JSON or a picture, and whether a sample of so many rows is run for it."""

    format: str = "text"
    analyze: bool = False
    sample_rows: int = 100_000

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise OptionError(f"a plan cannot be told as {self.format!r}", hint=f"use format={_LISTED}")
