"""Streams cut at random into the pieces that come with each micro-batch."""

from __future__ import annotations

from typing import Protocol

from hypothesis import strategies as st

from tests.runners import Source
from tests.spark.harness import cut
from tests.spark.simulation import Pieces


class HasSources(Protocol):
    @property
    def sources(self) -> tuple[Source, ...]: ...


@st.composite
def splits(draw: st.DrawFn, case: HasSources) -> Pieces:
    """A piece of every stream for each batch, many of them empty: a batch has rows of all streams, of one, or of none,
    so that streams come in turns, and one may be done before another has begun."""
    sizes = st.lists(st.integers(0, 4), max_size=6)
    return {
        source.name: cut(source.table, [*draw(sizes), draw(st.integers(1, 4))])
        for source in case.sources
        if source.time is not None
    }
