"""`watersmeet run` as somebody sees it who types it: what it says, and how it ends."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from watersmeet.cli.commands import main


@dataclass(frozen=True)
class Ended:
    code: int
    said: str


def run(file: Path, checkpoint: Path | str, *more: str) -> Ended:
    """In this process, up to the end of what is there."""
    command = [
        "run",
        str(file),
        "--engine",
        "local",
        "--checkpoint",
        str(checkpoint),
        "--available-now",
        "--quiet",
        *more,
    ]
    said = io.StringIO()
    with patch.object(sys, "argv", ["watersmeet", *command]), redirect_stdout(said), redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, said.getvalue())


def check_sentence(ended: Ended, *words: str, never: tuple[str, ...] = ()) -> None:
    """A sentence, maybe a hint, and nothing else; never what is secret."""
    assert ended.code == 1, ended.said
    lines = [line for line in ended.said.splitlines() if line.strip()]
    assert 1 <= len(lines) <= 2, ended.said
    assert len(lines) == 1 or lines[1].startswith("hint: "), ended.said
    for word in words:
        assert word in ended.said, ended.said
    for word in ("Traceback", *never):
        assert word not in ended.said, ended.said
