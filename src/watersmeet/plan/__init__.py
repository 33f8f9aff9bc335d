"""A query as a value: expressions, logical nodes, the chosen join strategy, and their printed form."""
