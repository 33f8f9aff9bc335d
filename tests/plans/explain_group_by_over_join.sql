SELECT a.k, COUNT(*) AS n, MAX(c.x) AS most
FROM a [RANGE 1 MINUTE], b [ROWS 50], c [RANGE 10 SECONDS]
WHERE a.k = b.k AND b.x = c.x AND a.x > 0
GROUP BY a.k
