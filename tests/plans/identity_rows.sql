SELECT a.k FROM a [ROWS 5], b [PARTITION BY s, k ROWS 3] WHERE a.k = b.k
