"""A kit for tests of queries: rows, event time and the clock on the wall are all moved by hand."""

from watersmeet.testing.scripts import queries_of
from watersmeet.testing.trial import Trial

__all__ = ["Trial", "queries_of"]
