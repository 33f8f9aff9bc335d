SELECT a.k, b.x AS next FROM a ASOF JOIN b ON a.k = b.k AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 1 HOUR
