"""Columns that tell in which window a row is: of TUMBLE and HOP, and of queries that give such windows once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from watersmeet.model.windows import WINDOW_COLUMNS, Hop, Session, Stepped
from watersmeet.plan.expressions import Call, Column, Expression
from watersmeet.plan.nodes import Changes, Derived, Input, Join, Node, Over, Project, View
from watersmeet.plan.walks import children, origin_of
from watersmeet.sql.scope import HIDDEN_TIME

Told = tuple[str, Hop | None]  # which column of the windows, and their form where the start tells the end
_END: Told = ("window_end", None)
_WHOLE = "window"  # a struct of both
ONCE = Stepped(1, 1)  # rows are there at the instant of their time, and at no other


def with_complete_windows(one: Input) -> Input:
    """What other windows have given, each at its end: grouped by them again, it is there at that instant."""
    match one:
        case Input(relation=Derived(plan=Changes(kind="complete")), window=None):
            return replace(one, window=ONCE)
    return one


def columns_of_windows(one: Input) -> dict[str, Told]:
    """The columns of an input that each tell in which window a row is."""
    if isinstance(one.window, Hop):
        form = replace(one.window, at_once=False, zone=None)
        # Of windows that begin together the start does not tell which one is meant.
        return {name: (name, form) for name in WINDOW_COLUMNS if name == "window_end" or not form.cumulates}
    if isinstance(one.window, Session):
        return {"window_end": _END}
    match one.relation:
        case Derived(plan=Changes(kind="complete", child=child), schema=schema, time=time):
            first, *others = (_told_by(part) for part in select_lists_below(child))
            same = {place: told for place, told in first.items() if all(one.get(place) == told for one in others)}
            told = {schema.names[place]: one for place, one in same.items()}
            return {time: _END} | {name: one for name, one in told.items() if one[1] is not None or one[0] == _WHOLE}
    return {} if one.time is None else {one.time: _END}


def _told_by(node: Project | Over) -> dict[int, Told]:
    """The places of columns that each tell in which window a row is."""
    told: dict[Expression, Told]
    if isinstance(node, Over):
        assert isinstance(node.child, Project)
        told = dict(_told_as("", node.child))
    else:
        join = node.child if isinstance(node.child, Join) else node.child.child
        told = {column: one for stream in join.streams for column, one in _told_in(stream)}
    found = ((place, told.get(e) or _told_by_struct(e, told)) for place, (_, e) in enumerate(node.columns))
    return {place: one for place, one in found if one is not None}


def _told_by_struct(expression: Expression, told: dict[Expression, Told]) -> Told | None:
    """A window by itself tells all that its columns do."""
    if not isinstance(expression, Call) or expression.function != "named_struct":
        return None
    forms = [told[part][1] for part in expression.args if part in told]
    return (_WHOLE, forms[-1]) if forms else None


def _told_in(one: Input) -> Iterator[tuple[Column, Told]]:
    match one.relation:
        case View(plan=Project(child=Join()) as inside):
            # Rows of a join before this one: the columns are those of its members.
            return _told_as(one.alias, inside)
    found = columns_of_windows(one).items()
    return ((Column(one.alias, name, one.schema.field(name).type), told) for name, told in found)


def _told_as(alias: str, node: Project) -> Iterator[tuple[Column, Told]]:
    for place, told in _told_by(node).items():
        name, expression = node.columns[place]
        yield Column(alias, name, expression.type), told


def _ends(node: Project | Over) -> list[Expression]:
    """What in a select list is the end of the windows."""
    if isinstance(node, Over):
        assert isinstance(node.child, Project)
        below = _ends(node.child)
        return [Column("", name, e.type) for name, e in node.child.columns if e in below]
    if isinstance(node.child, Join):
        every = [Column(one.alias, field.name, field.type) for one in node.child.streams for field in one.schema]
        return [column for column in every if _is_end(column, node.child)]
    return [key for key in node.child.keys if isinstance(key, Column) and _is_end(key, node.child.child)]


def with_end(node: Project | Over) -> tuple[Project | Over, Expression]:
    """The same with the end of the windows at hand, and what it is there."""
    known = _ends(node)
    if known or not isinstance(node, Over):
        return node, known[0]
    assert isinstance(node.child, Project)
    end = _ends(node.child)[0]
    child = replace(node.child, columns=(*node.child.columns, (HIDDEN_TIME, end)))
    return replace(node, child=child), Column("", HIDDEN_TIME, end.type)


def is_select_list(node: Node) -> TypeGuard[Project | Over]:
    return isinstance(node, Project) or (isinstance(node, Over) and isinstance(node.child, Project))


def select_lists_below(node: Node) -> Iterator[Project | Over]:
    """The select lists over windows, below what goes over them."""
    if is_select_list(node):
        yield node
        return
    for child in children(node):
        yield from select_lists_below(child)


def places_of_ends(node: Project | Over) -> set[int]:
    """The places of the columns that are the ends of windows."""
    ends = _ends(node)
    return {place for place, (_, expression) in enumerate(node.columns) if expression in ends}


def _is_end(key: Column, join: Join) -> bool:
    match origin_of(key, join):
        case (Input(window=Hop() | Session()), name):
            return name == WINDOW_COLUMNS[1]
        case (one, name):
            return name == one.time
    return False
