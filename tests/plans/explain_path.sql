SELECT a.k FROM a, b, c WHERE a.k = b.k AND a.k = c.k WINDOW PATH (a, b, c) = (5 SECONDS, 10 SECONDS)
