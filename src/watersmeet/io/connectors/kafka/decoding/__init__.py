"""From the bytes of records to columns, a file for each format."""
