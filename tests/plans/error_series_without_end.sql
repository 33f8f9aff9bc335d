SELECT a.k FROM a JOIN generate_series(1, 5, 0) AS n ON n = a.k
