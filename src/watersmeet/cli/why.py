"""`watersmeet why`: what kept rows of a script's query apart."""

from __future__ import annotations

import json

from watersmeet.cli.chosen import chosen
from watersmeet.runtime.script import read_script
from watersmeet.why import why
from watersmeet.why.asked import parse_rows


def why_script(text: str, rows: list[str], query: str | None, *, as_json: bool) -> str:
    job = chosen(read_script(text), query)
    found = why(job.plan, parse_rows(rows))
    return json.dumps(found.as_dict(), indent=2) if as_json else str(found)
