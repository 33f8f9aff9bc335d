"""What runs for one bucket, in Spark's Python workers: its operator, its state, and how its answers leave it."""
