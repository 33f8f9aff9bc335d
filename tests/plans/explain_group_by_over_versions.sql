SELECT a.k, SUM(a.x * r.x) AS total FROM a [RANGE 1 HOUR] JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON a.k = r.k GROUP BY a.k
