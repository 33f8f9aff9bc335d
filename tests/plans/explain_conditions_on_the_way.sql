SELECT a.k, c.s
FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS]
WHERE (a.x = b.x OR a.k > 2 * b.k) AND b.x < c.x AND regexp_matches(a.s || c.s, '^n.*h$')
