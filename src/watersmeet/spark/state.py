"""Kept for programs that import it from here; `from watersmeet.spark import read_state` is the shorter way."""

from watersmeet.hosts.spark.checkpoints.state import read_state

__all__ = ["read_state"]
