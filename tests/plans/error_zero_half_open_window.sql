SELECT a.k FROM a, b WINDOW = 0 SECONDS OPTIONS (boundary = 'half_open')
