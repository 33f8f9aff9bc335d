"""`watersmeet timeline`: a short run of a script's query as a picture."""

from __future__ import annotations

from watersmeet.cli.chosen import chosen
from watersmeet.runtime.script import read_script
from watersmeet.timeline import Part, timeline


def timeline_script(text: str, query: str | None, part: Part, format: str) -> str:
    told = timeline(chosen(read_script(text), query).plan, part)
    return {"svg": lambda: told.svg, "html": lambda: told.html, "text": lambda: str(told)}[format]()
