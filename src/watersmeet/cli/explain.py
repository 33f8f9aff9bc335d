"""`watersmeet explain`: the plans of a script, in the format that was asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence

from watersmeet.cli.chosen import chosen
from watersmeet.pictures.page import Shown, page
from watersmeet.query import Query
from watersmeet.runtime.script import Job, read_script


def explain_script(text: str, format: str, query: str | None, *, analyze: bool, sample: int) -> str:
    jobs = read_script(text, open_sources=analyze, explain=True)
    # A picture is of one query; a page, a text and JSON hold as many as there are.
    if query is not None or format == "svg":
        jobs = [chosen(jobs, query)]

    def told(job: Job, format: str) -> str:
        measured = analyze or (job.told is not None and job.told.analyze)
        return Query(job.plan).explain(format=format, analyze=measured, sample=sample)

    if format == "html":
        return page("how the queries run", [Shown(job.name, told(job, "svg"), told(job, "text")) for job in jobs])
    return _together([(job.name, told(job, format)) for job in jobs], format)


def _together(told: Sequence[tuple[str, str]], format: str) -> str:
    if format == "json":
        return "{" + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in told) + "}"
    if len(told) == 1:
        return told[0][1]
    return "\n\n".join(f"-- {name}\n{text}" for name, text in told)
