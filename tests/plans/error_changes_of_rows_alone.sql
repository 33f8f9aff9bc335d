SELECT a.k, COUNT(*) AS n FROM TUMBLE(a, 5 SECONDS) AS a ANTI JOIN TUMBLE(b, 5 SECONDS) AS b ON a.k = b.k AND a.window_start = b.window_start GROUP BY a.k, a.window_start OPTIONS (emit = 'changes')
