SELECT a.x, b.x AS y FROM a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts
