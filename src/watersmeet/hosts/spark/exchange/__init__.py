"""What goes from the tasks that read to the buckets: packets of rows, and what buckets are told besides."""
