"""How much of the SQL that other engines document is taken as it stands; `python -m tests.peers` counts it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from watersmeet.errors import WatersmeetError
from watersmeet.runtime.script import read_script

HERE = Path(__file__).parent
STREAMS = (HERE / "streams.sql").read_text(encoding="utf-8")


def statements() -> list[tuple[str, str]]:
    """Whose it is, and what it says."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^-- ", (HERE / "statements.sql").read_text(encoding="utf-8"), flags=re.MULTILINE)[2:]:
        heading, _, text = part.partition("\n")
        found += [(heading.partition(":")[0], one) for one in text.strip().removesuffix(";").split(";\n")]
    return found


def refused(statement: str) -> WatersmeetError | None:
    """Why a statement is not taken, if it is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_script(f"{STREAMS}{statement};", open_sources=False)
        except WatersmeetError as error:
            return error
    return None
