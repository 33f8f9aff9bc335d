MERGE INTO t USING a ON t.k = a.k
