SELECT k, window_end, COUNT(*) AS n FROM SESSION(a, 1 MINUTE PARTITION BY k) GROUP BY k, window_start, window_end
HAVING window_end - window_start > 2 MINUTES OPTIONS (emit = 'changes')
