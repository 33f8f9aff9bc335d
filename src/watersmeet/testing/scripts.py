"""The queries of a script, to be tried without what it reads and writes."""

from __future__ import annotations

from pathlib import Path

from watersmeet.runtime.script import read_script
from watersmeet.session import Query


def queries_of(script: str | Path) -> dict[str, Query]:
    """The queries of a SQL file by name: that of their sink, or without one their place, as 'query 2'.

    script: its path, or its text. Streams and tables that say their columns are not looked for.
    """
    is_path = isinstance(script, Path) or ("\n" not in script.strip() and script.strip().lower().endswith(".sql"))
    text = Path(script).read_text(encoding="utf-8") if is_path else str(script)
    return {job.name: Query(job.plan) for job in read_script(text, open_sources=False)}
