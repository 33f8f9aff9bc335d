SELECT a.k FROM a, b WHERE a.k = b.k
