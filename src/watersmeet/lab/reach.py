"""Which modules of the package a module runs through, itself or by others: read off the sources.

Functions import much of this package only when it is needed. Such an import counts if it has happened, which
`imports_watched` notices; that way a join does not seem to run through what only other queries load.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from watersmeet.dataclass import dataclass

PACKAGE = Path(__file__).parents[1]
NAME = PACKAGE.name
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_seen: set[str] = set()


@dataclass(frozen=True)
class Imports:
    """What a module names: imports when it is loaded, imports inside of functions, and texts like `module:name`, for
    those who load by name, as `plan/published.py` does."""

    at_load: frozenset[str]
    later: frozenset[str]
    by_name: frozenset[str]


@cache
def modules() -> dict[str, Path]:
    """Every module of the package, by its whole name."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def reachable(
    starts: Iterable[str], later: Collection[str] | None = None, by_name: Collection[str] | None = None
) -> frozenset[str]:
    """The modules that these run through. Of the imports inside of functions, and of those by name, only the ones
    given count; None stands for all."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name in found or name not in modules():
            continue
        found.add(name)
        named = imports_of(modules()[name])
        waiting += named.at_load
        waiting += (one for one in named.later if later is None or one in later)
        waiting += (one for one in named.by_name if by_name is None or one in by_name)
    # Packages around a module are loaded with it. What they load besides is not what it runs through.
    return frozenset(found | {around for name in found for around in _around(name)})


@cache
def imports_of(path: Path) -> Imports:
    found: dict[str, set[str]] = {"at_load": set(), "later": set(), "by_name": set()}
    for node, inside in _walk(ast.parse(path.read_text(encoding="utf-8")), inside=False):
        match node:
            case ast.Import() | ast.ImportFrom():
                found["later" if inside else "at_load"].update(_imported(node))
            case ast.Constant(str(text)) if text.startswith(f"{NAME}."):
                found["by_name"].update(_modules([text.replace(":", ".")]))
    return Imports(**{kind: frozenset(names) for kind, names in found.items()})


def _walk(node: ast.AST, *, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes but those that only type checkers see, and whether they are inside of a function."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        children: Iterable[ast.AST] = node.orelse
    else:
        yield node, inside
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _walk(child, inside=inside or isinstance(node, FUNCTIONS))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        return _modules(one.name for one in node.names)
    return _modules(f"{node.module}.{one.name}" for one in node.names)


def _modules(names: Iterable[str]) -> Iterator[str]:
    """The modules that dotted names are, or are something of."""
    for name in names:
        found = next((one for one in (name, *_around(name)) if one in modules()), None)
        if found:
            yield found


def _around(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def seen() -> frozenset[str]:
    """The modules that were imported while imports were watched, in this process. What one run has imported others may
    have kept, so all of it counts for all that follow."""
    return frozenset(_seen)


@contextmanager
def imports_watched() -> Iterator[None]:
    """Notice every import statement that runs, also of what is loaded already."""
    real: Callable[..., Any] = builtins.__import__
    statements: set[tuple[str, tuple[str, ...]]] = set()

    def noticing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        # Functions may run an import very often, and some runs are timed.
        if name.startswith(NAME) and (statement := (name, tuple(fromlist or ()))) not in statements:
            statements.add(statement)
            _seen.update(_modules([name, *(f"{name}.{one}" for one in fromlist or ())]))
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = noticing
    try:
        yield
    finally:
        builtins.__import__ = real
