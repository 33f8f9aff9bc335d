SELECT k, COUNT(*) FROM SESSION(a, 1 MINUTE) GROUP BY k, window_start, window_end OPTIONS (emit = 'changes')
