SELECT k FROM a WHERE ts > 'yesterday'
