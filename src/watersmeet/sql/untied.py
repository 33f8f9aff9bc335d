"""A comma in FROM, and no condition that says which rows belong together: often one was forgotten."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from watersmeet.errors import CrossJoinWarning
from watersmeet.plan.nodes import Input
from watersmeet.sql.syntax import FromSyntax, Name, SourceSyntax, joins_in, sources_in


def warn_of_untied(inputs: Iterable[Input], tied: Iterable[frozenset[str]]) -> None:
    """tied: which inputs a condition is about together. Answers that change are often a single row, and meant."""
    # Names are written in any case.
    shown = {one.alias.lower(): one.alias for one in inputs if not one.is_view}
    groups: list[set[str]] = [{name} for name in shown]
    for together in tied:
        names = {name.lower() for name in together}
        met = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + ([set().union(*met)] if met else [])
    if len(groups) < 2:
        return
    first = [next(name for name in shown if name in group) for group in groups]
    one, other = (shown[name] for name in sorted(first, key=list(shown).index)[:2])
    warnings.warn(
        f"no condition says which rows of {one} and {other} belong together, so each meets all of the other that are "
        f"in the window; write WHERE {one}.… = {other}.…, or CROSS JOIN if that is meant",
        CrossJoinWarning,
        stacklevel=2,
    )


def crossed_in(tree: FromSyntax) -> list[frozenset[str]]:
    """The inputs of each CROSS JOIN, which is meant."""
    return [
        frozenset(_name(one) for side in (join.left, join.right) for one in sources_in(side))
        for join in joins_in(tree)
        if join.crossed
    ]


def _name(one: SourceSyntax) -> str:
    named = one.alias or one.relation
    return named.text.lower() if isinstance(named, Name) else ""
