SELECT a.k, a.x, b.x AS later, event_time() AS at
FROM a [RANGE 30 SECONDS], b [RANGE 1 MINUTE]
WHERE a.k = b.k
