"""The nouns: time, windows, schemas and the catalog. Knows nothing of SQL or execution."""
