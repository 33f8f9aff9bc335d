"""Kept for programs that import it from here; `from watersmeet.spark import start_spark` is the shorter way."""

from watersmeet.hosts.spark.launch import start_spark

__all__ = ["start_spark"]
