SELECT a.x FROM a, (VALUES (1, 2), (3)) AS t (k, x) WHERE a.k = t.k
