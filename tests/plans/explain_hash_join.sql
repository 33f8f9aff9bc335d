SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k
OPTIONS (join = 'hash', buckets = 'a:5, b:33', invalidate = 'a:probe, b:all', boundary = 'half_open')
