SELECT a.k, c.x FROM (a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 1 SECONDS)
LEFT JOIN c ON c.ts BETWEEN b.ts AND b.ts + 2 SECONDS
