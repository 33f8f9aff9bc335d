"""The option `--view [PORT]`, whose value may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

from watersmeet.errors import SetupError

ANY = "any"  # stands for a port that was not said


class WithView(TyperCommand):
    """A command whose --view may have a port behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_port(args))


def with_port(args: Sequence[str]) -> list[str]:
    """
    >>> with_port(["a.sql", "--view"]), with_port(["--view", "a.sql"]), with_port(["--view", "80", "a.sql"])
    (['a.sql', '--view=any'], ['--view=any', 'a.sql'], ['--view=80', 'a.sql'])
    """
    found: list[str] = []
    left = list(args)
    while left:
        one = left.pop(0)
        if one == "--":
            return [*found, one, *left]
        if one == "--view":
            one = f"--view={left.pop(0) if left and left[0].isdecimal() else ANY}"
        found.append(one)
    return found


def checked_port(written: str) -> str:
    if written != ANY and not (written.isdecimal() and len(written) < 6 and int(written) < 1 << 16):
        raise SetupError(
            f"--view {written} is no port", hint="a number up to 65535; 0, or none, takes any that is free"
        )
    return written
