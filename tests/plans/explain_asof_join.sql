SELECT a.k, a.x, b.x AS y FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts <= a.ts AND b.ts >= a.ts - INTERVAL 1 HOUR
