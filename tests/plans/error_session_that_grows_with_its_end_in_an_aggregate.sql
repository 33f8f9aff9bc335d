SELECT MAX(window_end) FROM SESSION(a, 1 MINUTE) GROUP BY window_start, window_end OPTIONS (emit = 'changes')
