SELECT k, window_end FROM TUMBLE(a, 1 MINUTE) GROUP BY k, window_start, window_end UNION ALL SELECT k, ts FROM b [RANGE 1 HOUR]
