SELECT a.k, b.x FROM a [ROWS 1] ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts
