"""The arguments of `watersmeet lab errors` and `watersmeet lab static`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.errors import OptionError, SetupError


class Shape(StrEnum):
    text = "text"
    json = "json"


def errors(
    x: Annotated[Path, typer.Argument(metavar="A", help="An answer: a file or folder of Parquet, CSV or JSON lines.")],
    y: Annotated[Path, typer.Argument(metavar="B", help="The exact answer.")],
    columns: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="What rows are compared by; all columns, unless said.")
    ] = None,
    distance_by: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Columns of numbers or times that say how far rows are apart.")
    ] = None,
    members: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Columns that name the rows joined, to count incomplete ones.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Work out distances for up to so many pairs of rows.")
    ] = None,
    shape: Annotated[Shape, typer.Option("--format", help="`json` is for programs.")] = Shape.text,
) -> None:
    """Tell how far an answer is from the exact one, by every error measure of DGR03."""
    from watersmeet.lab.errors import MOST_PAIRS, errors_command

    errors_command(
        x, y, typer.echo, format=shape.value, columns=_names(columns), distance_by=_names(distance_by),
        members=_names(members), most_pairs=pairs or MOST_PAIRS,
    )  # fmt: skip


def _names(written: str | None) -> list[str]:
    if written is None:
        return []
    names = [part.strip() for part in written.split(",") if part.strip()]
    if not names:
        raise OptionError(f"{written!r} names no column", hint="write names with commas between them: a,b")
    return names


File = Annotated[Path, typer.Argument(help="A table, as CSV or Parquet.", exists=True, dir_okay=False)]


def static(
    a: File,
    b: File,
    on: Annotated[str, typer.Option(metavar="COLUMN", help="The column that is joined on.")],
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="Keep so many rows of both tables.")] = None,
    drop: Annotated[
        str | None, typer.Option(metavar="N[,N…]", help="Drop so many rows of both tables, or a number of each.")
    ] = None,
    keep_each: Annotated[str | None, typer.Option(metavar="KA,KB", help="Keep so many rows of each table.")] = None,
    third: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="One more table; may be repeated.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Choose the rows of stored tables that keep most of their join, and tell what is lost."""
    from watersmeet.lab.static import static_command

    each = _numbers("--keep-each", keep_each)
    if each and len(each) != 2:
        raise SetupError(f"--keep-each {keep_each} does not give two numbers", hint="write --keep-each 100,50")
    pair = (each[0], each[1]) if each else None
    static_command([a, b, *(third or [])], on, keep=keep, drop=_numbers("--drop", drop), keep_each=pair, say=typer.echo)


def _numbers(option: str, written: str | None) -> list[int]:
    parts = [] if written is None else [part.strip() for part in written.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise SetupError(f"{option} {written} is not a list of numbers of rows", hint=f"write {option} 100 or 100,50")
    return [int(part) for part in parts]
