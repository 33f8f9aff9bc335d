SELECT window_end, COUNT(*) AS n FROM HOP(zoned, 1 HOUR, 1 DAY) GROUP BY window_end OPTIONS (timezone = 'Europe/Berlin')
