SELECT a.k, event_time() AS t FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR
