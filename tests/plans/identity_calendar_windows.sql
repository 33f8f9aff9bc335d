SELECT window_start, COUNT(*) AS n FROM TUMBLE(zoned, 1 WEEK) GROUP BY window_start OPTIONS (timezone = 'Europe/Berlin')
