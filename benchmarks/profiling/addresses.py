"""Compiled kernels by name: Numba's own are at addresses that only the process knows that has them."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from itertools import pairwise

# No kernel is as long, and no function of Numba's own runtime.
FAR, FAR_IN_RUNTIME = 1 << 20, 1 << 8


def compiled_code() -> list[tuple[int, str]]:
    """Where each function begins that Numba has compiled or loaded in this process."""
    registry = sys.modules.get("numba.core.registry")
    if registry is None:
        return []
    engine = registry.cpu_target.target_context.codegen()._engine
    found = (
        (engine.get_function_address(name), name) for name in sorted(engine._defined_symbols) if "." not in name[:1]
    )
    return sorted((address, name) for address, name in found if address and not name.startswith("_ZN08NumbaEnv"))


class Names:
    """Of addresses in one process."""

    def __init__(self, code: list[tuple[int, str]]) -> None:
        self._begins = [address for address, _ in code]
        self._names = [kernel_name(name) for _, name in code]
        most = [FAR_IN_RUNTIME if name.lower().startswith("nrt_") else FAR for _, name in code]
        spans = zip(pairwise([*self._begins, sys.maxsize]), most, strict=True)
        self._ends = [min(after, begin + far) for (begin, after), far in spans]

    def at(self, address: int) -> str | None:
        place = bisect_right(self._begins, address) - 1
        return self._names[place] if place >= 0 and address < self._ends[place] else None


def kernel_name(symbol: str) -> str:
    """The file of a kernel and its name, of the name that its code has.

    >>> kernel_name("_ZN10watersmeet9operators7kernels4sums10sum_floatsB3v41B52c8tJT")
    'sums.sum_floats'
    >>> kernel_name("_ZN7cpython10watersmeet9operators7kernels6queues15first_in_queuesB2v2B52c8tJT")
    'queues.first_in_queues'
    >>> kernel_name("NRT_decref")
    'NRT_decref'
    >>> kernel_name("cfunc._ZN10watersmeet9operators7kernels6chains4linkB3v17B52c8tJT")
    'chains.link'
    """
    parts, rest = [], symbol.removeprefix("cfunc.").removeprefix("_ZN")
    while "_ZN" in symbol and (length := re.match(r"\d+", rest)):
        begin = length.end()
        parts.append(rest[begin : begin + int(length[0])])
        rest = rest[begin + int(length[0]) :]
    return ".".join(parts[-2:]) if parts else symbol
