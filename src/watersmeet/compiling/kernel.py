"""The decorator that makes a kernel of a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, overload

from watersmeet.compiling.library import Intrinsic, library, why_not
from watersmeet.errors import SetupError


@overload
def kernel(function: Callable[..., Any], /) -> Any: ...
@overload
def kernel(
    *, inline: str = "never", brief: bool = False, borrows: bool = False
) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, *, inline: str = "never", brief: bool = False, borrows: bool = False
) -> Any:
    """Call a function of arrays and numbers as compiled code: from the library that came with the package, or compiled
    when it is first called, once for all processes of a machine.

    inline: 'always' puts its code into the kernels that call it, before their types are known. brief: it takes a few
    microseconds, and holds Python's lock meanwhile; others run beside the threads that need it. borrows: it makes no
    arrays (else it cannot be compiled) and gives none back, so that references to those that it was given, whose owners
    wait for it, are not counted, as loops otherwise do at every turn that looks at a part of one.
    """
    options = {"inline": inline, "nogil": not brief, "_nrt": not borrows}  # Numba's own name for counting references
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
    return _numba().compiled(function, options)


def _compiled_here(function: Callable[..., Any], options: dict[str, Any], *arguments: Any) -> Any:
    """What the library has not: a kernel for other types."""
    if find_spec("numba") is None:
        raise _needs_numba(f"kernel {function.__qualname__} has", "it was not compiled for these types")
    return _numba().twin(function, options)(*arguments)


def no_kernels() -> SetupError | None:
    """Why no kernel can be called here, if none can."""
    if library() is None and find_spec("numba") is None:
        return _needs_numba("kernels have", why_not() or "no compiled ones came along")
    return None


def _numba() -> Any:
    if error := no_kernels():
        raise error
    from watersmeet.compiling import by_numba

    return by_numba


def _needs_numba(what: str, because: str) -> SetupError:
    words = f"{what} to be compiled here, as {because}, and Numba is not installed"
    return SetupError(words, hint="pip install 'watersmeet[compile]'")
