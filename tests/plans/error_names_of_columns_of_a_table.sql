SELECT a.k FROM a JOIN dim AS t (u, v) ON a.k = t.u
