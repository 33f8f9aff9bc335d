SELECT a.k, b.x FROM a [ROWS 100], b [ROWS 5] WHERE a.k = b.k
