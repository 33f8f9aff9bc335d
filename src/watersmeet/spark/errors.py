"""Kept for programs that import it from here; `from watersmeet.spark import friendly` is the shorter way."""

from watersmeet.hosts.spark.errors import friendly

__all__ = ["friendly"]
