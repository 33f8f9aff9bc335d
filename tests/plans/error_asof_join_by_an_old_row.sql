SELECT a.k, c.x FROM a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts ASOF JOIN c ON b.k = c.k AND c.ts <= b.ts
