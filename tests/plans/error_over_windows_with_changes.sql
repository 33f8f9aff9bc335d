SELECT k FROM TUMBLE(a, 1 HOUR) QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY x) = 1 OPTIONS (emit = 'changes')
