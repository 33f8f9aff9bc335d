"""What benchmarks.kafka measures: topics that are filled, read, joined and written, here and elsewhere."""
