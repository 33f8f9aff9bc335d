SELECT COUNT(*) FROM SESSION(a, 1 MINUTE) AS a, SESSION(b, 1 MINUTE) AS b
WHERE a.window_start = b.window_start AND a.window_end = b.window_end
GROUP BY a.window_start, a.window_end OPTIONS (emit = 'changes')
