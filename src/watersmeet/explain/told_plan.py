"""A plan that was told: text for whoever prints it, and a picture where a notebook shows it."""

from __future__ import annotations

from collections.abc import Callable


class ToldPlan(str):
    """What EXPLAIN says, in the format that was asked for. It is text in every way, but shown as it is, not quoted."""

    _picture: Callable[[], str] | None

    __slots__ = ("_picture",)

    @classmethod
    def of(cls, text: str, picture: Callable[[], str] | None = None) -> ToldPlan:
        """picture: makes a piece of HTML that shows the same, when somebody looks."""
        told = cls(text)
        told._picture = picture
        return told

    def __repr__(self) -> str:
        return str(self).rstrip("\n")

    def _repr_html_(self) -> str | None:
        """For notebooks."""
        return None if self._picture is None else self._picture()
