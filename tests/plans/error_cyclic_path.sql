SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k
WINDOW PATH (a, b, c, b) = (1 SECOND, 1 SECOND, 1 SECOND)
