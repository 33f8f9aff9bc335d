SELECT COUNT(*) FROM SESSION(a, 1 MINUTE) WHERE x > 1 GROUP BY window_start, window_end OPTIONS (emit = 'changes')
