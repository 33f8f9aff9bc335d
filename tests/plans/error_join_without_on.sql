SELECT a.k FROM a JOIN b WHERE a.k = b.k
