"""Pure functions on arrays, compiled by Numba: flows, policies and dynamic programs."""
