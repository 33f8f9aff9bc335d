SELECT k, window_end, COUNT(*) AS n FROM HOP(a, 1 MINUTE, 10 MINUTES) GROUP BY k, window_start, window_end
