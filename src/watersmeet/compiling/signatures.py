"""Which kernels wheels bring, for which types: the lines of `signatures.txt`, as `….rows.disorder(int64[::1], int64)`.

The list is the tests': they call each kernel for all types that the engine calls it with. So they run as if there were
no Numba: what is not in the list is refused, in all their processes, or added where that was asked for. Only the
papers' algorithms, which are for comparisons, may need Numba.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.sigutils import normalize_signature

from watersmeet.compiling.library import CHOICE
from watersmeet.errors import SetupError

LISTED = Path(__file__).with_name("signatures.txt")
# What CHOICE may be, beside others: a kernel that is not in the list is refused, or added to it.
REFUSE, ADD = "listed", "list"


def listed() -> list[str]:
    return LISTED.read_text(encoding="utf-8").splitlines()


def signature_of(kernel: str, arguments: Iterable[Any]) -> str:
    return f"{kernel}({', '.join(map(_written, arguments))})"


def read(signature: str) -> tuple[Any, tuple[Any, ...]]:
    """The kernel of a line, as Numba has it, and the types of its arguments."""
    kernel, _, written = signature.partition("(")
    module, _, name = kernel.rpartition(".")
    arguments, _ = normalize_signature(f"({written.removesuffix(')')},)" if written != ")" else "()")
    return getattr(import_module(module), name), arguments


def check(kernel: str, arguments: Iterable[Any]) -> None:
    """Where that was asked for: refuse what wheels would not bring, or list it."""
    choice = os.environ.get(CHOICE)
    if choice not in (REFUSE, ADD) or not kernel.startswith("watersmeet."):
        return
    asked, known = signature_of(kernel, arguments), set(listed())
    if asked in known:
        return
    if choice == REFUSE and not kernel.startswith("watersmeet.papers."):
        words = f"{asked} is not in {LISTED.name}, so wheels would not bring it"
        raise SetupError(words, hint="WATERSMEET_KERNELS=list adds it")
    if choice == ADD:
        with LISTED.open("a", encoding="utf-8") as file:  # other processes do the same
            file.write(f"{asked}\n")


def _written(kind: Any) -> str:
    if isinstance(kind, types.Array) and kind.mutable:
        axes = [":"] * kind.ndim
        if kind.layout != "A":
            axes[-1 if kind.layout == "C" else 0] = "::1"
        return f"{_written(kind.dtype)}[{', '.join(axes)}]"
    if isinstance(kind, types.BaseTuple):
        return f"Tuple(({''.join(f'{_written(one)}, ' for one in kind.types).strip()}))"
    return repr(kind)
