SELECT k FROM a WHERE event_time() > '2024-01-01'
