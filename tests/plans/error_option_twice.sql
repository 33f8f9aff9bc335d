SELECT k FROM a OPTIONS (join = 'hash', join = 'merge')
