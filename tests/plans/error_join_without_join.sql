SELECT a.k FROM a LEFT b ON a.k = b.k
