"""Kits for tests: of queries, whose rows, event time and clock on the wall are moved by hand; and of connectors."""

from watersmeet.testing.sink_checks import SINK_CHECKS, SinkCase, check_sink
from watersmeet.testing.source_checks import SOURCE_CHECKS, SourceCase, check_source
from watersmeet.testing.trial import Trial, queries_of

__all__ = [
    "SINK_CHECKS",
    "SOURCE_CHECKS",
    "SinkCase",
    "SourceCase",
    "Trial",
    "check_sink",
    "check_source",
    "queries_of",
]
