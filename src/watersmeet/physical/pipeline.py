"""How a continuous query notices that rows have expired: which of the three strategies it runs by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from watersmeet.plan.nodes import Plan, inputs_below

Pipeline = Literal["ita", "tpa", "nta"]
WORDS: dict[Pipeline, str] = {
    "ita": "input triggered: what has expired is noticed at the next input",
    "tpa": "time probing: operators hold rows with their ends and follow the time",
    "nta": "negative tuples: windows send each row once more when it leaves",
}


@dataclass(frozen=True)
class PipelineChoice:
    """The strategy, and where it was chosen by cost, what each would compare a second to find expired rows."""

    pipeline: Pipeline
    costs: dict[str, float] = field(default_factory=dict)


def pipeline_of(plan: Plan) -> Pipeline:
    """The strategy asked for. By itself: time probing, which holds the results of joins, for one window; negative
    tuples, which hold only the windows, for several."""
    chosen = plan.options.pipeline
    if chosen != "auto":
        return chosen  # type: ignore[return-value]
    windows = [one for one in inputs_below(plan.root) if one.window is not None]
    return "tpa" if len(windows) <= 1 else "nta"
