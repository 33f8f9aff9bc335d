"""Window stores: rows in arrival order, their indexes, and their payload columns."""
