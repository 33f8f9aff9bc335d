WITH t AS (SELECT 1 AS k, 'one' AS name UNION ALL SELECT column1 + 1, column2 FROM (VALUES (1, 'two')) AS v WHERE column1 > 0)
SELECT a.x, t.name, n FROM a, t, range(0, 10, 2) AS n WHERE a.k = t.k AND n = a.x
