SELECT v.k, b.x FROM (SELECT DISTINCT k FROM a [NOW]) AS v, b WHERE v.k = b.k
