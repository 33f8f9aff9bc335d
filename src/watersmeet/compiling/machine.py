"""For what compiled code is good: a Python, a Numba, and a processor."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from functools import cache

import llvmlite.binding as llvm
import numba

from watersmeet.dataclass import dataclass

# What a processor of the level x86-64-v3 has (Intel since 2013, AMD since 2015), in LLVM's words.
X86_64_V3 = (
    "64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "crc32", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt", "mmx",
    "movbe", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """Compiled code runs where all of this is the same."""

    python: str
    numba: str
    system: str
    processor: str
    features: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@cache
def this_machine() -> Target:
    """What Numba compiles for in this process."""
    config = numba.config
    if config.CPU_FEATURES is None:
        features = [name for name, has in llvm.get_host_cpu_features().items() if has]
    else:
        features = [one[1:] for one in config.CPU_FEATURES.split(",") if one.startswith("+")]
    return _target(config.CPU_NAME or llvm.get_host_cpu_name(), tuple(sorted(features)))


def baseline() -> Target:
    """What code is compiled for that others get: processors of this kind that are in use today."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return _target("x86-64-v3", X86_64_V3)
    return _target("generic", ())


def environment_for(target: Target) -> dict[str, str]:
    """The environment in which Numba compiles for a target instead of the processor at hand."""
    return {
        "NUMBA_CPU_NAME": target.processor,
        "NUMBA_CPU_FEATURES": ",".join(f"+{name}" for name in target.features),
    }


def _target(processor: str, features: tuple[str, ...]) -> Target:
    # Code differs by these settings of Numba's too.
    config = numba.config
    settings = f"O{config.OPT!s}" + "-checked" * bool(config.BOUNDSCHECK) + "-debug" * bool(config.DEBUGINFO_DEFAULT)
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return Target(python, f"{numba.__version__} {settings}", llvm.get_process_triple(), processor, features)
