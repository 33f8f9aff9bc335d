"""The command line."""

from watersmeet.cli.commands import main

__all__ = ["main"]
