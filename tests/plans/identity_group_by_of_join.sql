SELECT a.k, MEDIAN(b.x) AS middle FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS]
WHERE a.k = b.k AND (a.x > 5 OR b.s IS NULL) GROUP BY a.k
