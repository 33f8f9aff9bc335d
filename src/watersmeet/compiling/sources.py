"""A sum over the source of a kernel and of all that it can call: code compiled from other lines is not its own.

Numba itself looks at the file of a kernel only, and would go on with what a changed file of another was compiled into.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.util import find_spec

from watersmeet.version import VERSION

IMPORTS = re.compile(rb"^from (watersmeet\.(?!compiling)[\w.]+) import", re.MULTILINE)


@cache
def stamp_of(module: str) -> str:
    """Of one module of kernels, and the modules that it imports."""
    total = hashlib.sha256()
    for name in sorted(_reached(module)):
        total.update(name.encode() + b"\0" + _source(name))
    return total.hexdigest()


def _reached(module: str) -> set[str]:
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
