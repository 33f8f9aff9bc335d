SELECT k, COUNT(*) FROM SESSION(a PARTITION BY k) GROUP BY k, window_start, window_end
