SELECT lowr(s) FROM a
