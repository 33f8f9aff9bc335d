"""From columns to the bytes of records, a file for each format."""
