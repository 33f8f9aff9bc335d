SELECT k limit FROM a
