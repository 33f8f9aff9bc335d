SELECT a.x FROM a, (VALUES (1), ('one')) AS t (k) WHERE a.k = t.k
