"""The decorator that makes a kernel of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from numba import njit, types
from numba.core.dispatcher import Dispatcher

from watersmeet.compiling.kept import KeptKernel


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...
@overload
def kernel(*, inline: str = "never", brief: bool = False) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, /, *, inline: str = "never", brief: bool = False) -> Any:
    """Compile a function of arrays and numbers when it is first called, once for all processes of a machine.

    inline: 'always' puts its code into the kernels that call it, before their types are known. brief: it takes a few
    microseconds, and holds Python's lock meanwhile; others run beside the threads that need it.
    """
    if function is None:
        return lambda function: _compiled(function, inline, not brief)
    return _compiled(function, inline, not brief)


def _compiled(function: Callable[..., Any], inline: str, nogil: bool) -> Any:
    compiled = njit(inline=inline, nogil=nogil)(function)
    if not isinstance(compiled, Dispatcher):  # NUMBA_DISABLE_JIT: it stays Python
        return compiled
    compiled._cache = KeptKernel(function)
    called_with = compiled.get_call_template

    def call_template(args: Any, kws: Any) -> Any:
        # Numba would compile a kernel anew for every constant it is called with; LLVM puts constants in anyway.
        return called_with([types.unliteral(one) for one in args], {k: types.unliteral(v) for k, v in kws.items()})

    compiled.get_call_template = call_template
    return compiled
