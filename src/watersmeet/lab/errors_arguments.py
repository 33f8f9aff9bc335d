"""The arguments of `watersmeet lab errors`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from watersmeet.errors import OptionError


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
