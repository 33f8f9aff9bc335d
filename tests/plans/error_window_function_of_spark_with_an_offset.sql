SELECT COUNT(*) FROM b GROUP BY window(ts, '1 hour', '1 hour', '15 minutes')
