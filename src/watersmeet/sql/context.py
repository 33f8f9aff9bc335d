"""What binding needs to know besides the syntax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.model.windows import Boundary
from watersmeet.plan.constants import Constants
from watersmeet.plan.nodes import Node
from watersmeet.sql.scope import UTC, Text
from watersmeet.sql.syntax import NamedSyntax, QuerySyntax


@dataclass(frozen=True)
class Context:
    text: Text
    catalog: Catalog
    boundary: Boundary
    zone: str = UTC
    named: Mapping[str, tuple[NamedSyntax, Context]] = field(default_factory=dict)
    """The queries of WITH by their names in lower case, each with what it sees."""
    as_view: bool = False
    """Whether what is bound is to be there while it holds, if it has windows."""
    emits_changes: bool = False
    """Whether windows are given as they change, not once when they are complete."""
    said_rows: Callable[[Constants], Stream] | None = None
    """How rows that a query says itself become a stream that ends, where it reads no others."""


SubqueryBinder = Callable[[QuerySyntax, Context], Node]
