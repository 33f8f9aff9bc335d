SELECT busy.k, busy.n, c.x, dim.name
FROM (SELECT k, COUNT(*) AS n FROM a [RANGE 1 HOUR] GROUP BY k HAVING COUNT(*) > 3) AS busy, c [ROWS 100], dim
WHERE busy.k = c.k AND c.k = dim.k
