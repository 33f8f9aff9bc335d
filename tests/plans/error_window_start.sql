SELECT window_start FROM a
