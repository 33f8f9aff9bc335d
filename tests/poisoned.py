"""A plugin of pytest (`-p tests.poisoned`): memory that nobody has written holds nonsense, so that whoever reads it is
found out. For what kernels and Arrow take for themselves glibc sees to it, in a process with `ENVIRONMENT`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

BYTE = 0xA5  # as an int64 no number of a row, as a truth value neither, as text no UTF-8
ENVIRONMENT = {"MALLOC_PERTURB_": str(BYTE), "ARROW_DEFAULT_MEMORY_POOL": "system"}


class Poisoned(ModuleType):
    """NumPy, but for arrays that it leaves as they are."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(*args: Any, **how: Any) -> npt.NDArray[Any]:
        return _filled(np.empty(*args, **how))

    @staticmethod
    def empty_like(*args: Any, **how: Any) -> npt.NDArray[Any]:
        return _filled(np.empty_like(*args, **how))


def _filled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.reshape(-1).view(np.uint8)[:] = BYTE
    return array


POISONED = Poisoned("numpy")


def pytest_runtest_setup() -> None:
    """Modules may have been imported since the last test."""
    for name, module in list(sys.modules.items()):
        if name.startswith("watersmeet.") and vars(module).get("np") is np and not _has_kernels(module):
            module.np = POISONED  # type: ignore[attr-defined]


def _has_kernels(module: ModuleType) -> bool:
    """Numba compiles for NumPy itself only; these modules hardly do anything besides."""
    functions = [getattr(one, "py_func", None) for one in vars(module).values()]
    return any(getattr(one, "__module__", None) == module.__name__ for one in functions)
