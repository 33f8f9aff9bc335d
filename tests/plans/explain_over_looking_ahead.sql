SELECT k, LEAD(ts) OVER (PARTITION BY k ORDER BY ts) - ts AS until_next FROM a
