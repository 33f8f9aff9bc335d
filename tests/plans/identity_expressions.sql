SELECT CASE WHEN a.x > 3 THEN 'hi' ELSE a.s END AS said, CAST(a.x AS DOUBLE) / 2 AS half,
  COALESCE(a.s, 'none') || '!' AS loud, NOT (a.x = 3 OR a.k = 4) AS fits, a.ts + INTERVAL 1 HOUR AS "one hour on"
FROM a
