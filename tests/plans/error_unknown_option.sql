SELECT k FROM a OPTIONS (jion = 'hash')
