"""Which kernels are called with which types, by queries that are run for it: what a library must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import typeof

from watersmeet.compiling.by_numba import twin

RECORDED: list[Recorded] = []


class Recorded:
    """A kernel that knows the types it was called with."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func = function
        self.options = options
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.signatures: dict[tuple[Any, ...], None] = {}
        RECORDED.append(self)

    def __call__(self, *arguments: Any) -> Any:
        self.signatures[tuple(map(typeof, arguments))] = None
        return twin(self.py_func, self.options)(*arguments)
