"""The condition of a join, which sees what it joins and nothing beside it: ON, or the columns of USING."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.plan.nodes import Input
from watersmeet.sql.scope import Merged, Scope, field_index
from watersmeet.sql.syntax import JoinSyntax, Name, locate


class Part(Protocol):
    @property
    def visible(self) -> tuple[Input, ...]: ...


@dataclass(frozen=True)
class JoinedSides:
    """Two parts of FROM with the columns of USING in each."""

    around: Scope
    tree: JoinSyntax
    left: Part
    right: Part
    of_left: tuple[Merged, ...]
    of_right: tuple[Merged, ...]

    @property
    def scope(self) -> Scope:
        inputs = (*self.left.visible, *self.right.visible)
        return Scope(self.around.text, inputs, self.around.zone, merged=(*self.of_left, *self.of_right))

    def conditions(self) -> Iterator[exp.Expr]:
        if self.tree.condition is not None:
            yield self.tree.condition
        for name in self.tree.using:
            # As DuckDB has it: of an as-of join the last one says up to when.
            test = exp.GTE if self.tree.kind.startswith("asof") and name is self.tree.using[-1] else exp.EQ
            left, right = self._of(name, self.left, self.of_left), self._of(name, self.right, self.of_right)
            made = test(this=left, expression=right)
            locate(made, name.span)
            yield made

    def merged(self) -> tuple[Merged, ...]:
        """The columns of USING in what comes of the join."""
        names = {name.text.lower() for name in self.tree.using}
        seen = self.of_left if self.tree.kind in ("semi", "anti") else (*self.of_left, *self.of_right)
        older = [one for one in seen if one.name.lower() not in names]
        return (*map(self._merged, self.tree.using), *older)

    def _merged(self, name: Name) -> Merged:
        left, right = self._of(name, self.left, self.of_left), self._of(name, self.right, self.of_right)
        shown = left
        if self.tree.kind == "right":
            shown = right
        elif self.tree.kind == "full":
            shown = exp.Anonymous(this="COALESCE", expressions=[left, right])
            locate(shown, name.span)
        sides = (self.left,) if self.tree.kind in ("semi", "anti") else (self.left, self.right)
        having = [one for side in sides for one in side.visible if field_index(one.schema, name.text) is not None]
        return Merged(name.text, shown, frozenset(one.alias for one in having))

    def _of(self, name: Name, part: Part, known: tuple[Merged, ...]) -> exp.Expr:
        """The column of a name in one part."""
        scope = Scope(self.around.text, part.visible, self.around.zone, merged=known)
        found = scope.merged_column(name)
        if found is not None:
            return found
        column = scope.column(None, name)
        made = exp.column(column.name, table=column.stream, quoted=True)
        locate(made, name.span)
        return made
