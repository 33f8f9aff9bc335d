SELECT window_end, COUNT(*) AS n FROM TUMBLE(a, 1 DAY 12 HOURS) GROUP BY window_end
