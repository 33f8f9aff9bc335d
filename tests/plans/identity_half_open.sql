SELECT a.k FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND] WHERE a.k = b.k
OPTIONS (boundary = 'half_open')
