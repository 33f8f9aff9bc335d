SELECT a.k FROM a, b, c WINDOW PATH (a, b, c) = (5 SECONDS)
