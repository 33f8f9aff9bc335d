"""The algorithms of H02 by the names that the option `join` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from watersmeet.errors import UnsupportedError
from watersmeet.operators.classic.contract import Algorithm
from watersmeet.operators.classic.description import Description
from watersmeet.operators.classic.hash_pipeline import HashPipelineJoin
from watersmeet.operators.classic.merge_join import MergeJoin
from watersmeet.operators.classic.periods import Windows
from watersmeet.operators.classic.pipeline_join import PipelineJoin
from watersmeet.operators.classic.ripple import RippleJoin, XJoin
from watersmeet.operators.classic.w_join import WJoin

Name = Literal["w_join", "nlw", "hw", "merge", "ripple", "xjoin"]
Class = type[WJoin] | type[PipelineJoin] | type[HashPipelineJoin] | type[MergeJoin]
CLASSES: dict[Name, Class] = {
    "w_join": WJoin,
    "nlw": PipelineJoin,
    "hw": HashPipelineJoin,
    "merge": MergeJoin,
    "ripple": RippleJoin,
    "xjoin": XJoin,
}


def make_h02(
    name: Name,
    description: Description,
    *,
    windows: Windows = "closure",
    order: Sequence[int] | None = None,
    buckets: int | None = None,
) -> Algorithm:
    """A fresh algorithm; `windows` is for merging, `order` for pipelines, `buckets` for hash tables.

    Raises UnsupportedError if the algorithm cannot answer the join, and says why.
    """
    refusal = CLASSES[name].refusal(description)
    if refusal is not None:
        raise UnsupportedError(
            f"join = {name!r} cannot answer this query: {refusal}", hint="join = 'w_join' answers every join"
        )
    match name:
        case "w_join":
            return WJoin(description)
        case "nlw":
            return PipelineJoin(description, order=order)
        case "hw":
            return HashPipelineJoin(description, order=order, buckets=buckets)
        case "merge":
            return MergeJoin(description, windows=windows)
        case "ripple":
            return RippleJoin(description)
        case "xjoin":
            return XJoin(description, order=order, buckets=buckets)
