"""A reader around another, whose answers it gives unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from watersmeet.io.connectors.contract import Position, Range, Reader


class WrappedReader(Reader):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def tell(self) -> Callable[[Warning], None]:
        return self._reader.tell

    @tell.setter
    def tell(self, tell: Callable[[Warning], None]) -> None:
        self._reader.tell = tell

    @property
    def pause_s(self) -> float:
        return self._reader.pause_s

    @property
    def is_behind(self) -> bool | None:
        return self._reader.is_behind

    @property
    def changed_files(self) -> int:
        return self._reader.changed_files

    @property
    def keeps_step(self) -> bool:
        return self._reader.keeps_step

    def keep_step(self, order: Sequence[str]) -> None:
        self._reader.keep_step(order)

    def lag(self) -> dict[str, int]:
        return self._reader.lag()

    def first_position(self) -> Position | None:
        return self._reader.first_position()

    def position_after(self, range: Range) -> Position:
        return self._reader.position_after(range)

    @property
    def may_be_shared(self) -> bool:
        return self._reader.may_be_shared

    def place_after(self, position: Position | None, ranges: Sequence[Range]) -> Position:
        return self._reader.place_after(position, ranges)

    def where(self, position: Position | None) -> Any:
        return self._reader.where(position)

    def be_shared(self) -> None:
        self._reader.be_shared()

    def resume(self, position: Position) -> None:
        self._reader.resume(position)

    def close(self) -> None:
        self._reader.close()
