SELECT window_end, COUNT(*) AS n FROM HOP(a, 1 DAY, 1 MONTH) GROUP BY window_end
