"""The command line."""

from watersmeet.cli.app import main

__all__ = ["main"]
