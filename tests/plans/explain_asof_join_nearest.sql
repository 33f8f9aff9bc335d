SELECT a.k, b.x AS near FROM a ASOF JOIN b ON a.k = b.k AND NEAREST(b.ts, a.ts) AND b.ts >= a.ts - INTERVAL 1 HOUR
