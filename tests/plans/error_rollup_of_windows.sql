SELECT k, COUNT(*) AS n FROM TUMBLE(a, 10 SECONDS) GROUP BY ROLLUP (k), window_start, window_end
