SELECT a.k, dim.name FROM a, dim WHERE a.k = dim.k AND a.x > 0
