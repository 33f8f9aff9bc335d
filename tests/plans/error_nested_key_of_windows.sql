SELECT SPLIT(s, ',') AS parts, COUNT(*) AS n FROM TUMBLE(a, 1 HOUR) GROUP BY SPLIT(s, ','), window_start, window_end
