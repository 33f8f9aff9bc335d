"""What was seen as shares: by kernel, by library, by room of the source, by function."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.profiling.addresses import Names, kernel_name
from benchmarks.profiling.profilers import Frame, Place, Stack

SOURCE = f"{Path('src') / 'watersmeet'}/"
DISK, KERNELS = "disk", "kernels"
ROOMS_OF_TWO = ("operators", "hosts", "io")
FUNCTIONS = 5
LEAST = 0.005  # what is less is not told
TO_DISK = re.compile(r"\bos\.f(?:data)?sync\(")
# By the file that code is from, the first that fits.
LIBRARIES = (
    (r"_kernels\.", KERNELS),
    (r"\[(?:kernel|guest|vdso|vsyscall|unknown)|\.ko$", "operating system"),
    (r"/numpy/", "numpy"),
    (r"/pyarrow/|libarrow|libparquet", "pyarrow"),
    (r"/numba/|/llvmlite/", "Numba"),
    (r"/(?:libc|libm|ld-linux[^/]*|libpthread|libstdc\+\+|libgcc_s|ld-\d[^/]*)[.-][^/]*$", "C library"),
    (r"/(?:lib)?python[\d.]*(?:\.so[^/]*)?$|/lib-dynload/", "Python"),
)
BY_ADDRESS = re.compile(r"/perf-\d+\.map|\[JIT\]|//anon|\[anon|^\[?unknown\]?$|/memfd:")
ZEROING = "operating system, zeroing pages"


def shares(counted: Counter[str], most: int | None = None) -> dict[str, float]:
    """The largest first."""
    total = counted.total()
    return {name: round(n / total, 4) for name, n in counted.most_common(most) if n >= LEAST * total}


# ---- where processors were -------------------------------------------------------------------------------------------


def by_library(places: Counter[Place], names: Names) -> Counter[str]:
    return _summed((library(place, names), n) for place, n in places.items())


def by_kernel(places: Counter[Place], names: Names) -> Counter[str]:
    """Kernels by name, and what is none by its library: together all that was seen."""
    found = ((library(place, names), place, n) for place, n in places.items())
    return _summed((kernel(place, names) if lib == KERNELS else lib, n) for lib, place, n in found)


def kernel(place: Place, names: Names) -> str:
    return names.at(place.address) or kernel_name(place.symbol)


def library(place: Place, names: Names) -> str:
    if names.at(place.address):
        return KERNELS
    if BY_ADDRESS.search(place.file):
        return "code without a name"
    if place.symbol.startswith("clear_page"):
        return ZEROING
    for pattern, name in LIBRARIES:
        if re.search(pattern, place.file):
            return name
    return Path(place.file).name


def _summed(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, n in counts:
        found[name] += n
    return found


# ---- where lines of Python were --------------------------------------------------------------------------------------


def within(stacks: Counter[Stack], function: str) -> Counter[Stack]:
    """Those in which it was at work, whoever called it."""
    return Counter({stack: n for stack, n in stacks.items() if any(one.function == function for one in stack)})


def in_source(stacks: Counter[Stack]) -> Counter[Stack]:
    """Without what the benchmark does itself, and threads that wait for it."""
    return Counter({stack: n for stack, n in stacks.items() if any(SOURCE in one.file for one in stack)})


def by_room(stacks: Counter[Stack]) -> Counter[str]:
    """The innermost line of ours says the room: what it called elsewhere counts for it."""
    return _summed((room(stack), n) for stack, n in stacks.items())


def by_function(stacks: Counter[Stack]) -> Counter[str]:
    return _summed((function(stack), n) for stack, n in stacks.items())


def room(stack: Stack) -> str:
    frame = _own(stack)
    if waits_for_disk(frame):
        return DISK
    parts = _below(frame.file).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] and parts[0] in ROOMS_OF_TWO else 1]) or "watersmeet"


def function(stack: Stack) -> str:
    frame = _own(stack)
    named = f"{_below(frame.file)}: {frame.function}"
    return f"{named}, {DISK}" if waits_for_disk(frame) else named


def waits_for_disk(frame: Frame) -> bool:
    return TO_DISK.search(linecache.getline(frame.file, frame.line)) is not None


def _own(stack: Stack) -> Frame:
    return next(one for one in reversed(stack) if SOURCE in one.file)


def _below(file: str) -> Path:
    return Path(file.rpartition(SOURCE)[2])
