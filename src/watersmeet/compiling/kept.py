"""What Numba asks for compiled code before it compiles, and gives what it has compiled."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from watersmeet.compiling import places, signatures, telling
from watersmeet.compiling.library import library, why_not
from watersmeet.compiling.machine import this_machine
from watersmeet.version import VERSION


class KeptKernel:
    """The compiled code of one kernel, by the types of its arguments. A Numba dispatcher takes it for its cache."""

    cache_path = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._module = function.__module__
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._is_part = False

    @contextmanager
    def as_part(self) -> Iterator[None]:
        """Another kernel that is being compiled calls it."""
        self._is_part = True
        try:
            yield
        finally:
            self._is_part = False

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        if not self._is_part:
            signatures.check(self._name, getattr(sig, "args", sig))
        arguments = _words(sig)
        found = places.read_kept(self._file(arguments))
        loaded = None if found is None else _loaded(found, target_context)
        if loaded is None:
            telling.compiling(because=_because())
        return loaded

    def save_overload(self, sig: Any, data: Any) -> None:
        if any(not one.can_cache for one in data.lifted) or data.library.has_dynamic_globals:
            raise AssertionError(f"kernel {self._name} cannot be kept: it holds addresses of this process")
        places.keep(self._file(_words(sig)), _saved(data))

    def enable(self) -> None:
        """Kernels are always kept."""

    def disable(self) -> None:
        raise NotImplementedError("kernels are always kept")

    def flush(self) -> None:
        raise NotImplementedError("remove the folder of kernels instead")

    def _file(self, arguments: str) -> str:
        return places.name_for(this_machine(), self._name, stamp_of(self._module), arguments)


def _because() -> str | None:
    """Why something is compiled that might have come with the package."""
    return why_not() if library() is None else "the compiled kernels that came with watersmeet are for other types"


def _words(sig: Any) -> str:
    return repr(tuple(getattr(sig, "args", sig)))


def _saved(compiled: Any) -> bytes:
    library, about, environment, signature, objectmode, lifted, _, init, environments = compiled._reduce()
    # An environment holds Python objects that code needs, errors to raise for instance. Most are empty, and would have
    # modules of Numba's imported.
    needed = tuple(one for one in environments if one.consts)
    reduced = (library, about, environment, signature, objectmode, lifted, "", init, needed)
    data: bytes = dumps((_symbols(compiled.library._final_module), reduced))
    return data


def _symbols(module: Any) -> tuple[str, ...]:
    """What the code calls outside itself."""
    named = [*module.functions, *module.global_variables]
    return tuple(one.name for one in named if one.is_declaration and not one.name.startswith("llvm."))


def _loaded(data: bytes, target_context: Any) -> CompileResult | None:
    # Numba would first get ready to compile (`target_context.refresh()`), which takes longer than all else together.
    # Code that is compiled already needs only its runtime, and the symbols that it calls.
    rtsys.initialize(target_context)
    try:
        symbols, reduced = pickle.loads(data)
    except Exception:  # half a file, left by a machine that lost its power; it will be written anew
        return None
    if not all(map(llvm.address_of_symbol, symbols)):
        target_context.refresh()
    return CompileResult._rebuild(target_context, *reduced)


IMPORTS = re.compile(rb"^from (watersmeet\.(?!compiling)[\w.]+) import", re.MULTILINE)


@cache
def stamp_of(module: str) -> str:
    """Of one module of kernels, and the modules that it imports."""
    total = hashlib.sha256()
    for name in sorted(reached(module)):
        total.update(name.encode() + b"\0" + _source(name))
    return total.hexdigest()


def reached(module: str) -> set[str]:
    """The modules that a module of kernels is made of."""
    found, ahead = set(), [module]
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        found.add(name)
        # Of other modules kernels take constants, not code.
        if ".kernels." in name or name == module:
            ahead += [one.decode() for one in IMPORTS.findall(_source(name))]
    return found


@cache
def _source(module: str) -> bytes:
    spec = find_spec(module)
    # In a folder or a zip. Where only bytecode was installed the version has to tell.
    read = getattr(spec.loader, "get_source", None) if spec else None
    text = read(module) if read else None
    return (text or VERSION).encode()
