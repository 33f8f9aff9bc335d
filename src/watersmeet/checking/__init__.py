"""Is it right? The answer of a query once more, by DuckDB or the slow reference, at every instant."""

from watersmeet.checking.checker import check
from watersmeet.checking.report import Difference, Report

__all__ = ["Difference", "Report", "check"]
