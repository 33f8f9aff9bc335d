"""Pure functions on arrays, compiled by Numba. Nothing here allocates state or knows a query."""
