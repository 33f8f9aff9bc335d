SELECT a.x, t.name, n
FROM a, (VALUES (1, 'one'), (2, NULL)) AS t (k, name), generate_series(1, 10) AS n
WHERE a.k = t.k AND n = a.x
