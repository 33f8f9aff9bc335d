SELECT a.x FROM a, generate_series(0.5, 3) AS n WHERE a.k = n
