SELECT COUNT(*) FROM b GROUP BY window(b.ts, '10 minutes', '5 minutes')
