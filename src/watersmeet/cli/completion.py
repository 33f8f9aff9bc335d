"""What a shell offers when Tab is pressed, beside the commands and options that typer knows."""

from __future__ import annotations

from pathlib import Path

MASTERS = ("local[*]", "local[1]", "local[2]", "local[4]", "local[8]", "yarn", "spark://", "k8s://")


def scripts(incomplete: str) -> list[str]:
    """The SQL files whose names begin so; none, so that the shell offers files by itself, if there are none."""
    folder, _, start = incomplete.rpartition("/")
    below = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").expanduser()
    found = sorted(one.name for one in below.glob("*.sql") if one.name.startswith(start)) if below.is_dir() else []
    prefix = incomplete[: len(incomplete) - len(start)]
    return [prefix + name for name in found]


def masters(incomplete: str) -> list[str]:
    return [one for one in MASTERS if one.startswith(incomplete)]
