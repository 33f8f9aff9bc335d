SELECT window_start, window_end, COUNT(*) AS n FROM CUMULATE(a, 1 MINUTE, 1 HOUR) GROUP BY window_start, window_end
