SELECT a.k FROM a ASOF LEFT JOIN b ON a.k = b.k AND b.ts >= a.ts
