SELECT a.k, b.k AS other FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE ABS(a.x - b.x) <= 3
