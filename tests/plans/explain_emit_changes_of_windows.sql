SELECT k, COUNT(*) AS n, window_start FROM TUMBLE(a, ts, INTERVAL '10 MINUTES') GROUP BY k, window_start, window_end EMIT CHANGES
