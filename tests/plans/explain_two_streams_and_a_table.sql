SELECT a.k, dim.name FROM a, b, dim WHERE a.k = b.k AND b.x = dim.k WINDOW = 1 MINUTE
