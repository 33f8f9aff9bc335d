"""How a query runs, as values: what the optimizer decides and operators are built from."""
