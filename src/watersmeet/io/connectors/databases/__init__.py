"""Answers kept as tables of a database, and static tables loaded from one: PostgreSQL, SQLite, DuckDB."""
