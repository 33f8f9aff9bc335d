SELECT a.x, dim.name FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE], dim
WHERE a.k = b.k AND b.k = dim.k AND dim.since >= DATE '2024-01-01'
