SELECT k, window_start, n
FROM GAP_FILL((SELECT k, window_start, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY k, window_start), window_start, 1 MINUTE, CONSTANT(n, 0) PARTITION BY k) AS w
