SELECT a.k FROM a RIGHT JOIN dim ON a.k = dim.k
