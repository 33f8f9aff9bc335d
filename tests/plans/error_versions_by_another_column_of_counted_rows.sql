SELECT r.x, COUNT(*) AS n FROM a [ROWS 3] JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON a.x = r.x GROUP BY r.x
