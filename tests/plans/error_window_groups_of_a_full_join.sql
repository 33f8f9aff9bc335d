SELECT a.window_start, COUNT(*) AS n FROM TUMBLE(a, 5 SECONDS) AS a FULL JOIN TUMBLE(b, 5 SECONDS) AS b
ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end GROUP BY a.window_start, a.window_end
