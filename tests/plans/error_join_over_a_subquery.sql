SELECT d.k FROM (SELECT ISTREAM a.k FROM a, b WHERE a.k = b.k WINDOW = 1 MINUTE) [RANGE 1 HOUR] d, c [RANGE 1 HOUR]
WHERE d.k = c.k OPTIONS (join = 'hash')
