SELECT a.k, b.ts - a.ts AS travel
FROM a, b, c
WHERE a.k = b.k AND b.k = c.k
DWINDOW (a, b) = 10 MINUTES AND DWINDOW (b, c) = 20 MINUTES
