SELECT a.x FROM a, generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-02-01') AS t WHERE a.ts = t
