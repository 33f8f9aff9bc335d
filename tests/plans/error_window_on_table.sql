SELECT a.k FROM a, dim [RANGE 1 HOUR] WHERE a.k = dim.k
