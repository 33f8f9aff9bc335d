"""Kernels: plain functions on arrays, as compiled code.

Compiling takes seconds and a compiler, loading milliseconds. So kernels are taken from the library that came with the
package, for which Numba is not needed (`library.py`; `build.py` makes it). What it has not, for other types or where
none came, Numba compiles: it is looked for in the user's cache folder first (`kept.py`), and compiling is told
(`telling.py`).
"""

from watersmeet.compiling.kernel import intrinsic, kernel, no_kernels
from watersmeet.compiling.telling import working_seconds

__all__ = ["intrinsic", "kernel", "no_kernels", "working_seconds"]
