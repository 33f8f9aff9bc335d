"""Kept for programs that import it from here; `from watersmeet.spark import start_spark` is the shorter way."""

from watersmeet.hosts.spark.launching.launch import start_spark

__all__ = ["start_spark"]
