"""Copies of a state, made while rows wait, in memory that is there already.

A large array is copied ten times faster into pages that the process has than into new ones, which the system has to
clear and hand out one by one. So the memory of the last copy is used again, and where there is too little of it more is
fetched beforehand, beside the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.operators.saving import Saved

LARGE = 1 << 20  # bytes; smaller arrays are copied in no time anyway
_PAGE = 4096
_ROOM = 1.25  # arrays grow between two copies
_MOST_ROOM = 4.0  # what is larger than an array by more than this is given back
Bytes = npt.NDArray[np.uint8]


class Copies:
    """One copy at a time: the next one is made when nobody reads the last one any more."""

    def __init__(self) -> None:
        self._memory: dict[str, Bytes] = {}

    def lacks(self, state: Saved) -> dict[str, int]:
        """For which arrays there is no memory yet, and how many bytes they have."""
        sizes = _large(state)
        for name in [name for name in self._memory if name not in sizes]:
            del self._memory[name]
        return {name: size for name, size in sizes.items() if not self._suits(name, size)}

    def fetch(self, sizes: Mapping[str, int]) -> None:
        """Have memory at hand for arrays of such sizes. Takes long, so it is for another thread."""
        for name, size in sizes.items():
            self._memory.pop(name, None)
            memory = np.empty(int(_ROOM * size), np.uint8)
            memory[::_PAGE] = 0
            self._memory[name] = memory

    def of(self, state: Saved) -> Saved:
        """The state as it is now: what Arrow holds never changes, arrays are copied."""
        values = {name: self._copied(name, value) for name, value in state.values.items()}
        return Saved(values, state.format, state.version)

    def _copied(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.nbytes < LARGE or not self._suits(name, value.nbytes):
            return value.copy()
        copy = self._memory[name][: value.nbytes].view(value.dtype).reshape(value.shape)
        np.copyto(copy, value)
        return copy

    def _suits(self, name: str, size: int) -> bool:
        memory = self._memory.get(name)
        return memory is not None and size <= memory.size <= _MOST_ROOM * size


def _large(state: Saved) -> dict[str, int]:
    arrays = {name: value for name, value in state.values.items() if isinstance(value, np.ndarray)}
    return {name: int(array.nbytes) for name, array in arrays.items() if array.nbytes >= LARGE}
