"""The decorator that makes a kernel of a function."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from watersmeet.compiling.library import CHOICE, Intrinsic, library, why_not
from watersmeet.errors import SetupError


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...
@overload
def kernel(*, inline: str = "never", brief: bool = False) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, /, *, inline: str = "never", brief: bool = False) -> Any:
    """Call a function of arrays and numbers as compiled code: from the library that came with the package, or compiled
    when it is first called, once for all processes of a machine.

    inline: 'always' puts its code into the kernels that call it, before their types are known. brief: it takes a few
    microseconds, and holds Python's lock meanwhile; others run beside the threads that need it.
    """
    options = {"inline": inline, "nogil": not brief}
    if function is None:
        return lambda function: _declared(function, options)
    return _declared(function, options)


def intrinsic(function: Callable[..., Any]) -> Any:
    """What kernels do by instructions of LLVM's: Numba's `intrinsic`, which only who compiles needs."""
    if library() is None:
        return _numba().intrinsic(function)
    return Intrinsic(function)


def _declared(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    compiled = library()
    if compiled is not None:
        name = f"{function.__module__}.{function.__qualname__}"
        return compiled.Kernel(name, function, options, partial(_compiled_here, function, options))
    if os.environ.get(CHOICE) == "record":
        from watersmeet.compiling.recording import Recorded

        return Recorded(function, options)
    return _numba().compiled(function, options)


def _compiled_here(function: Callable[..., Any], options: dict[str, Any], *arguments: Any) -> Any:
    """What the library has not: a kernel for other types."""
    return _numba(function.__qualname__).twin(function, options)(*arguments)


def _numba(kernel: str | None = None) -> Any:
    try:
        from watersmeet.compiling import by_numba
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "llvmlite"):
            raise
        if kernel is None:
            what, because = "kernels have", why_not() or "no compiled ones came along"
        else:
            what, because = f"kernel {kernel} has", "it was not compiled for these types"
        words = f"{what} to be compiled here, as {because}, and Numba is not installed"
        raise SetupError(words, hint="pip install numba") from None
    return by_numba
