SELECT a.k FROM a, b WHERE a.k = b.k AND a.x = b.x AND a.d = b.d WINDOW (a, b) = 1 MINUTE
