SELECT a.k, a.ts, c.ts AS last
FROM a, b, c
WHERE a.k = b.k AND b.k = c.k
WINDOW (a, b) = 30 SECONDS AND WINDOW (b, c) = 1 MINUTE
