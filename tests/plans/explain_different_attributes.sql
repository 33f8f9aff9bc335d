SELECT a.k, c.k AS other
FROM a, b, c
WHERE a.k = b.k AND b.x = c.x
WINDOW = 10 SECONDS
