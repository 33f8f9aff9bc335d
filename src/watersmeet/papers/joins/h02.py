"""The algorithms of H02 by the names that the option `join` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from watersmeet.errors import UnsupportedError
from watersmeet.model.catalog import Stream
from watersmeet.model.time import format_interval
from watersmeet.papers.joins.contract import Algorithm
from watersmeet.papers.joins.description import JoinDescription, describe
from watersmeet.papers.joins.hash_pipeline import HashPipelineJoin
from watersmeet.papers.joins.kernels import pipeline
from watersmeet.papers.joins.merge_join import MergeJoin
from watersmeet.papers.joins.output import OUTPUT_ROWS
from watersmeet.papers.joins.periods import Windows
from watersmeet.papers.joins.pipeline_join import PipelineJoin
from watersmeet.papers.joins.pipelines import Turns
from watersmeet.papers.joins.w_join import WJoin
from watersmeet.physical.strategy import JoinStrategy

# The baselines that H02 adapts to windows keep old rows until a periodic purge.
PURGE_EVERY = 10_000  # H02 section 4.3, Figures 7 and 8


class RippleJoin(WJoin):
    """The ripple join: nested loops over everything kept of the other inputs (H02-B1)."""

    def __init__(
        self, description: JoinDescription, *, purge_every: int = PURGE_EVERY, output_rows: int = OUTPUT_ROWS
    ) -> None:
        super().__init__(description, purge_every=purge_every, output_rows=output_rows)


class XJoin(HashPipelineJoin):
    """The XJoin's part in memory (H02-B2): probes delete nothing, and every `purge_every` inputs all buckets are
    looked over."""

    def __init__(
        self,
        description: JoinDescription,
        *,
        order: Sequence[int] | None = None,
        turns: Turns = "arrival",
        buckets: int | None = None,
        purge_every: int = PURGE_EVERY,
        output_rows: int = OUTPUT_ROWS,
    ) -> None:
        super().__init__(
            description, order=order, turns=turns, buckets=buckets, sweep_every=purge_every, output_rows=output_rows
        )
        for one in self.pipelines:
            one.plan.table[pipeline.LAZY] = one.plan.table[pipeline.PURGE_ALL] = 1


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


def make(strategy: JoinStrategy) -> Algorithm:
    """A fresh algorithm for a join, by its method."""
    method = strategy.method
    if method.kind.in_turns and method.turns == "round_robin":
        _refuse_disorder(strategy)
    place = {one.alias: i for i, one in enumerate(strategy.join.inputs)}
    return make_h02(
        cast(Name, method.algorithm),
        describe(strategy),
        windows=cast(Windows, method.windows),
        order=None if method.chain is None else [place[alias] for alias in method.chain],
        buckets=next(iter(method.buckets.values()), None),
        turns="alternate" if method.turns == "round_robin" else "arrival",
    )


def _refuse_disorder(strategy: JoinStrategy) -> None:
    for one in strategy.join.streams:
        if isinstance(one.relation, Stream) and one.relation.lateness_us:
            behind = format_interval(one.relation.lateness_us)
            raise UnsupportedError(
                f"turns = 'round_robin' has join = {strategy.method.algorithm!r} take each stream as it comes, and "
                f"rows of {one.alias} may be out of order by {behind}",
                hint="leave turns out: then rows wait until all before them are there",
            )


def make_h02(
    name: Name,
    description: JoinDescription,
    *,
    windows: Windows = "closure",
    order: Sequence[int] | None = None,
    buckets: int | None = None,
    turns: Turns = "arrival",
) -> Algorithm:
    """A fresh algorithm; `windows` is for merging, `order` and `turns` for pipelines, `buckets` for hash tables.

    Raises UnsupportedError if the algorithm cannot answer the join, and says why.
    """
    refusal = CLASSES[name].refusal(description)
    if refusal is None and turns == "alternate" and description.counted:
        raise UnsupportedError(
            "turns = 'round_robin' cannot answer this query: ROWS windows count rows in time order",
            hint="leave turns out, or give the streams windows of time",
        )
    if refusal is not None:
        raise UnsupportedError(
            f"join = {name!r} cannot answer this query: {refusal}", hint="join = 'w_join' answers every join"
        )
    match name:
        case "w_join":
            return WJoin(description)
        case "nlw":
            return PipelineJoin(description, order=order, turns=turns)
        case "hw":
            return HashPipelineJoin(description, order=order, turns=turns, buckets=buckets)
        case "merge":
            return MergeJoin(description, windows=windows, clocked=turns == "arrival")
        case "ripple":
            return RippleJoin(description)
        case "xjoin":
            return XJoin(description, order=order, turns=turns, buckets=buckets)
