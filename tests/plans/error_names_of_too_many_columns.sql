SELECT t.u FROM b AS t (u, v, w, x, y, z)
