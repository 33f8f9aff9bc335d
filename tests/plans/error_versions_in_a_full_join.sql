SELECT a.k, r.x FROM a FULL JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON a.k = r.k
