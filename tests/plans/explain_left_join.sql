SELECT a.k, a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS
WHERE a.x > 2
