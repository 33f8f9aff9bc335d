SELECT a.k FROM a, dim WINDOW (a, dim) = 5 SECONDS
