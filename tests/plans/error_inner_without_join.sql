SELECT a.k FROM a INNER b ON a.k = b.k
