"""Kernels: plain functions on arrays that Numba compiles, and where compiled code is kept.

Compiling takes seconds, loading milliseconds. So compiled kernels are looked for in the user's cache folder, then among
those that came with the package (`shipped.py`); only what neither has is compiled, which is told (`telling.py`).
"""

from watersmeet.compiling.kernel import kernel
from watersmeet.compiling.telling import working_seconds

__all__ = ["kernel", "working_seconds"]
