SELECT window_start, COUNT(*) AS n FROM HOP(zoned, 1 MONTH, 1 QUARTER, OFFSET 6 HOURS) GROUP BY window_start OPTIONS (timezone = 'Europe/Berlin')
