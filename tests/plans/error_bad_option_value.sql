SELECT k FROM a OPTIONS (join = 'quick')
