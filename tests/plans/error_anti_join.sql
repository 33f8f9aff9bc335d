SELECT a.k FROM a LEFT ANTI JOIN b ON a.k = b.k
