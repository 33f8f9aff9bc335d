SELECT k FROM 'a.parquet'
