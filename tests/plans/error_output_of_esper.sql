SELECT * FROM a output snapshot every 5 seconds
