SELECT k FROM a#time(5 sec)
