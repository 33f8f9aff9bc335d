"""Kernels that count no references to arrays: that nothing of theirs would have needed it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numba import types
from numba.core.errors import NumbaError

import watersmeet
from watersmeet.compiling import kernel, signatures

SOURCES = Path(watersmeet.__file__).parent


def _decorator(function: ast.FunctionDef) -> str:
    return next((text for one in function.decorator_list if (text := ast.unparse(one)).startswith("kernel")), "")


def _kernels() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text()
        if "@kernel" in text:
            for one in ast.walk(ast.parse(text)):
                if isinstance(one, ast.FunctionDef) and _decorator(one):
                    yield f"{path.relative_to(SOURCES)}:{one.name}", one


KERNELS = dict(_kernels())
BORROWING = {name: one for name, one in KERNELS.items() if "borrows=True" in _decorator(one)}


def _gives_values_only(function: ast.FunctionDef) -> bool:
    """Nothing, constants, comparisons, or numbers that it has calculated."""
    given = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
    return all(
        isinstance(one, ast.Constant | ast.Compare | ast.UnaryOp) or (isinstance(one, ast.Name) and one.id.isupper())
        for one in given
    )


def _callees(name: str) -> Iterator[ast.FunctionDef]:
    """The kernels that a kernel calls, by the names that its module has for them."""
    path = name.partition(":")[0]
    homes = {
        one.name: f"{(node.module or '').removeprefix('watersmeet.').replace('.', '/')}.py"
        for node in ast.walk(ast.parse((SOURCES / path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    for one in ast.walk(BORROWING[name]):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
            found = KERNELS.get(f"{homes.get(one.func.id, path)}:{one.func.id}")
            if found is not None:
                yield found


@pytest.mark.parametrize("name", BORROWING)
def test_what_a_borrowing_kernel_calls_gives_it_no_array(name: str) -> None:
    """Which nobody would ever free."""
    for callee in _callees(name):
        decorator = _decorator(callee)
        assert "borrows=True" in decorator or "inline" in decorator or _gives_values_only(callee), callee.name


def _has_array(kind: types.Type) -> bool:
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(_has_array, kind)))


def test_borrowing_kernels_give_no_arrays_back() -> None:
    """Which would be the caller's without having been taken over."""
    borrowing = {f"watersmeet.{name.replace('/', '.').replace('.py:', '.')}" for name in BORROWING}
    looked_at = 0
    for line in signatures.listed():
        if line.partition("(")[0] in borrowing:
            function, arguments = signatures.read(line)
            function.compile(arguments)
            assert not _has_array(function.overloads[arguments].signature.return_type), line
            looked_at += 1
    assert looked_at > 20


def test_a_borrowing_kernel_that_makes_an_array_is_not_compiled() -> None:
    with pytest.raises(NumbaError, match="Only accept returning of array"):
        makes_an_array(np.zeros(3))


@kernel(borrows=True)
def makes_an_array(values):
    return np.zeros(len(values))[0]
