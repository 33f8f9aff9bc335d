SELECT k, MAX(x) AS highest_so_far FROM a [LATCH 1 HOUR] GROUP BY k
