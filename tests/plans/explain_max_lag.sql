SELECT a.k FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k OPTIONS (memory = '64 MB', max_lag = '5 seconds', queue = 'modular')
