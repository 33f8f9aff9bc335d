"""The ways in which a continuous query can notice that rows have expired, by the names that `pipeline` gives them.

`auto`, `ita`, `tpa` and `nta` run the engine's own operators. Those that end in `_scan` are H04's as printed, here for
comparison: they live in `papers/`, behind a wall, and nothing imports them; whoever is asked for one loads it then.
"""

from __future__ import annotations

from typing import Literal

# As time passes; not before the next tuple comes; or only by the negative tuples that windows send.
Noticing = Literal["in_time", "at_next_input", "negative"]
OWN = ("auto", "ita", "tpa", "nta")
PUBLISHED: dict[str, Noticing] = {"ita_scan": "at_next_input", "tpa_scan": "in_time", "nta_scan": "negative"}
# Who runs next: whoever is asked for tuples, everyone in turn, or who frees most of what waits between operators.
SCHEDULES = ("pull", "round_robin", "memory")
# What makes the operators of one query.
PUBLISHED_OPERATORS = "watersmeet.papers.pipelines.make:Published"
