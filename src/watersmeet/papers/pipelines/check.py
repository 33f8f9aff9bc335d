"""What H04's operators as printed cannot run is refused, and said: they are for streams with windows in time."""

from __future__ import annotations

from watersmeet.errors import OptionError
from watersmeet.model.windows import Range
from watersmeet.physical.nodes import (
    AnswerNode,
    DistinctNode,
    FromManyNode,
    FromOneNode,
    GroupByNode,
    LeafNode,
    NetNode,
    PhysicalNode,
    SetOperationNode,
    StreamSourceNode,
    WindowJoinNode,
    everything_below,
)
from watersmeet.plan.expressions import BY_TIME
from watersmeet.plan.options import Options

OPERATORS = (FromOneNode, FromManyNode, GroupByNode, DistinctNode, SetOperationNode, StreamSourceNode)
BENEATH = (LeafNode, WindowJoinNode)  # what those are made of


def check_published(answer: AnswerNode, options: Options) -> None:
    """Raise an OptionError unless a plan has only what the paper has."""
    if not isinstance(answer, NetNode):
        raise _refused(options, "RSTREAM and windows that are given when they are complete")
    for node in everything_below(answer.child):
        said = _not_printed(node)
        if said is not None:
            raise _refused(options, said)


def _not_printed(node: PhysicalNode) -> str | None:
    match node:
        case StreamSourceNode(window=window) if not isinstance(window, Range):
            return f"{node.alias} without [RANGE …]"
        case GroupByNode(aggregates=aggregates) if any(one.function in BY_TIME for one, _ in aggregates):
            return "aggregates that go by the order of rows"
        case GroupByNode(final=True):
            return "groups of windows that step"
        case _ if isinstance(node, OPERATORS + BENEATH):
            return None
    return _WORDS.get(type(node).__name__, "subqueries in FROM")


_WORDS = {
    "TopKNode": "ORDER BY … LIMIT",
    "OverStreamNode": "OVER",
    "OverChangingNode": "OVER",
    "FromMatchedNode": "outer, semi and anti joins",
    "EachStepNode": "windows that step",
}


def _refused(options: Options, what: str) -> OptionError:
    own = options.pipeline.removesuffix("_scan")
    return options.wrong(
        "pipeline",
        f"runs operators as H04 prints them, which do not know {what}",
        f"leave pipeline out, or write pipeline = {own!r} for the engine's own operators",
    )
