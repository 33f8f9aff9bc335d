SELECT a.k, b.x FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k OPTIONS (memory = '100 rows', shed = 'rand')
