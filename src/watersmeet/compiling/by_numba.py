"""Kernels that Numba compiles when they are first called."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit, types
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

from watersmeet.compiling.kept import KeptKernel
from watersmeet.compiling.library import BUILD, CHOICE, Intrinsic

__all__ = ["compiled", "intrinsic", "twin"]

_making = threading.RLock()
_twins: dict[Callable[..., Any], Any] = {}
_names: dict[str, dict[str, Any]] = {}


def compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    made = njit(**options)(function)
    if not isinstance(made, Dispatcher):  # NUMBA_DISABLE_JIT: it stays Python
        return made
    kept = KeptKernel(function)
    if os.environ.get(CHOICE) != BUILD:
        made._cache = kept
    called_with = made.get_call_template

    def call_template(args: Any, kws: Any) -> Any:
        # Numba would compile a kernel anew for every constant it is called with; LLVM puts constants in anyway.
        with kept.as_part():
            return called_with([types.unliteral(one) for one in args], {k: types.unliteral(v) for k, v in kws.items()})

    made.get_call_template = call_template
    return made


def twin(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A kernel of a module whose names are bound to what is not Numba's: the same function, with names that are."""
    with _making:
        if function not in _twins:
            names = _names_of(function.__module__)
            if function not in _twins:  # it may be one of them
                same = FunctionType(function.__code__, names, function.__name__)
                same.__qualname__ = function.__qualname__
                _twins[function] = compiled(same, options)
        return _twins[function]


def _names_of(module: str) -> dict[str, Any]:
    if module not in _names:
        names = _names[module] = dict(vars(sys.modules[module]))
        for name, value in list(names.items()):
            if isinstance(value, Intrinsic):
                names[name] = _intrinsic(value)
            elif callable(value) and hasattr(value, "py_func") and hasattr(value, "options"):
                names[name] = twin(value.py_func, value.options)
    return _names[module]


_intrinsics: dict[Intrinsic, Any] = {}


def _intrinsic(declared: Intrinsic) -> Any:
    if declared not in _intrinsics:
        _intrinsics[declared] = intrinsic(declared.function)
    return _intrinsics[declared]
