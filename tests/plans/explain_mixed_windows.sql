SELECT a.k, b.x FROM a [ROWS 100], b [RANGE 1 MINUTE], c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.k = c.k
