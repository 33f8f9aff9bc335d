SELECT window_end, COUNT(*) AS n FROM TUMBLE(a, 5 SECONDS) AS a ASOF JOIN b ON a.k = b.k AND b.ts >= a.ts GROUP BY window_start, window_end
