SELECT a.k, b.k AS other
FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS]
WHERE a.x < b.x AND a.k <> b.k AND (a.d > 3 OR b.d > 3)
