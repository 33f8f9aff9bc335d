SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS] WHERE a.k = b.k AND b.k = c.k
OPTIONS (join = 'naive')
