SELECT a.k, COUNT(*) FROM a, b
WINDOW (a, b) = 5 SECONDS
WHERE a.k = b.k
GROUP BY a.k
