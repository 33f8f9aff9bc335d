SELECT a.k, a.x FROM a [RANGE 1 HOUR] WHERE a.x > 0.5 * (SELECT AVG(b.x) FROM b [RANGE 1 HOUR] WHERE b.k = a.k)
