"""Kept for programs that import it from here; `from watersmeet.spark import ParquetTable` is the shorter way."""

from watersmeet.hosts.spark.writing.tables import ParquetTable

__all__ = ["ParquetTable"]
