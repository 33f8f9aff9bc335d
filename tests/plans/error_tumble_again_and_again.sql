SELECT RSTREAM window_start, COUNT(*) AS n FROM TUMBLE(a, 1 MINUTE) GROUP BY window_start, window_end EVERY 1 MINUTE
