SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW PATH (a, b, c) = (1 SECOND, 2 SECONDS)
