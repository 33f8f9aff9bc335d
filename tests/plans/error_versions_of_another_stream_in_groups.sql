SELECT a.k, COUNT(*) AS n FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] ON a.k = b.k JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON b.k = r.k GROUP BY a.k
