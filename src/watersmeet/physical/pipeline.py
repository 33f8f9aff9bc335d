"""How a continuous query notices that rows have expired: which of the three strategies it runs by."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from watersmeet.dataclass import dataclass

Pipeline = Literal["ita", "tpa", "nta", "ita_scan", "tpa_scan", "nta_scan"]
WORDS: dict[Pipeline, str] = {
    "ita": "input triggered: what has expired is noticed at the next input",
    "tpa": "time probing: operators hold rows with their ends and follow the time",
    "nta": "negative tuples: windows send each row once more when it leaves",
    "ita_scan": "input triggered as in H04: each operator expires its own tuples at its next input",
    "tpa_scan": "time probing as in H04: each operator asks for the time and expires its own tuples",
    "nta_scan": "negative tuples as in H04: windows send each row once more at the next arrival",
}


@dataclass(frozen=True)
class PipelineChoice:
    """The strategy, and where it was chosen by cost, what each would take: microseconds of work for a second of the
    streams, and rows held to know what ends, beside the windows of joins (their results, or nothing)."""

    pipeline: Pipeline
    costs: dict[str, float] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
