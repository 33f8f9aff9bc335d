SELECT AGE(ts, ts) FROM a
