SELECT a.k FROM a JOIN generate_series(1, 1000000000000) AS n ON n = a.k
