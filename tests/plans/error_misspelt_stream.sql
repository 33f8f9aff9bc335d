SELECT k
FROM dimm, a
