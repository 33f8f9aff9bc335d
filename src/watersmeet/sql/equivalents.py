"""Functions of other dialects that say exactly what something of the language says: they are read as that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

Args = Sequence[exp.Expr]


def equivalent(node: exp.Anonymous) -> exp.Expr | None:
    """What a call stands for; None if it is a function by itself, or has another number of arguments."""
    makes = _MAKERS.get((str(node.name).lower(), len(node.expressions)))
    if makes is None:
        return None
    made = makes([one.copy() for one in node.expressions])
    made.meta.update(node.meta)  # errors point at what was written
    return made


def _choice(condition: exp.Expr, yes: exp.Expr, no: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no)


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value, expression=exp.Null())


def _call(name: str, args: Args) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


def _count_if(args: Args) -> exp.Expr:
    return _call("COUNT", [_choice(args[0], exp.Literal.number(1))])


def _part(args: Args) -> exp.Expr:
    """The part as a word, as EXTRACT has it; what is no text stays, and is refused as a part."""
    return exp.Extract(this=exp.Var(this=args[0].name), expression=args[1])


_MAKERS: dict[tuple[str, int], Callable[[Args], exp.Expr]] = {
    ("isnull", 1): lambda args: _is_null(args[0]),
    ("isnull", 2): lambda args: _call("COALESCE", args),
    ("isnotnull", 1): lambda args: exp.Not(this=_is_null(args[0])),
    ("nvl2", 3): lambda args: _choice(_is_null(args[0]), args[2], args[1]),
    ("if", 2): lambda args: _choice(args[0], args[1]),
    ("if", 3): lambda args: _choice(*args),
    ("iif", 3): lambda args: _choice(*args),
    ("date_part", 2): _part,
    ("count_if", 1): _count_if,
    ("countif", 1): _count_if,
}
