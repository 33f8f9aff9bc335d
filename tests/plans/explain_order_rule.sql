SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS], c [RANGE 10 SECONDS] WHERE a.k = b.k AND b.k = c.k
OPTIONS (order = 'selectivity')
