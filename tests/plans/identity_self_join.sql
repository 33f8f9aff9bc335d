SELECT p.x, q.x FROM a AS p, a AS q WHERE p.k = q.k DWINDOW (p, q) = 3 SECONDS
