"""`watersmeet why`: what kept rows of a script's query apart."""

from __future__ import annotations

import json

from watersmeet.errors import BindError
from watersmeet.runtime.script import Job, read_script
from watersmeet.why import why
from watersmeet.why.asked import parse_rows


def why_script(text: str, rows: list[str], query: str | None, *, as_json: bool) -> str:
    job = _chosen(read_script(text), query)
    found = why(job.plan, parse_rows(rows))
    return json.dumps(found.as_dict(), indent=2) if as_json else str(found)


def _chosen(jobs: list[Job], query: str | None) -> Job:
    names = [job.name for job in jobs]
    if query is None and len(jobs) > 1:
        raise BindError(f"the script has {len(jobs)} queries", hint=f"say which: --query '{names[0]}'")
    for job in jobs:
        if query is None or job.name.lower() == query.lower():
            return job
    raise BindError(f"the script has no query {query!r}", hint=f"it has {', '.join(names)}")
