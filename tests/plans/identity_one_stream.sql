SELECT a.k, a.x + 1 AS more FROM a WHERE a.s LIKE 'x%' AND a.d > 2.5
