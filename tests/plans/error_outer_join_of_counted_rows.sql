SELECT a.k, b.x FROM a [ROWS 5] LEFT JOIN b ON a.k = b.k
