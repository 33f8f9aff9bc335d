SELECT a.k, b.x FROM a LEFT JOIN b ON a.k = b.k WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES
