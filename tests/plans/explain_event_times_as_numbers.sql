SELECT a.k, e.ms, HOUR(e.ms) AS hour FROM a, epochs e WHERE a.k = e.k AND e.ms > TIMESTAMP '2026-01-01' WINDOW = 5 SECONDS
