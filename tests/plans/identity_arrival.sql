SELECT k, COUNT(*) AS n, window_start FROM TUMBLE(arriving, 10 SECONDS) GROUP BY k, window_start, window_end
