SELECT a.k, r.x FROM a JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON a.x = r.x
