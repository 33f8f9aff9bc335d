SELECT window(ts, '5 minutes'), COUNT(*) FROM a GROUP BY 1
