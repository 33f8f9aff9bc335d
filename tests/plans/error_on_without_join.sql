SELECT a.k FROM a, b ON a.k = b.k
