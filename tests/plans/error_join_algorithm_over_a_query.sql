SELECT pairs.k, c.x
FROM (SELECT ISTREAM a.k, b.x FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS) [RANGE 1 HOUR] AS pairs, c [RANGE 1 HOUR]
WHERE pairs.k = c.k
OPTIONS (join = 'nested_loop')
