SELECT a.k, COUNT(*) AS n FROM a [RANGE 1 HOUR] ASOF JOIN b [RANGE 1 HOUR] ON a.k = b.k AND b.ts <= a.ts GROUP BY a.k
