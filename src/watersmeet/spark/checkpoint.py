"""Kept for programs that import it from here; `from watersmeet.spark import check_checkpoint` is the shorter way."""

from watersmeet.hosts.spark.checkpoints.checkpoint import check_checkpoint

__all__ = ["check_checkpoint"]
