SELECT a.k, a.x, r.x AS rate FROM a LEFT JOIN rates FOR SYSTEM_TIME AS OF a.ts AS r ON a.k = r.k AND r.x > 0
