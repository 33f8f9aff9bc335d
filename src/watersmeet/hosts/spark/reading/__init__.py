"""What streams and tables are read from, as Spark's sources."""
