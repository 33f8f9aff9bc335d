SELECT a.x, b.x AS y FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 1 SECONDS WHERE b.x IS NULL
