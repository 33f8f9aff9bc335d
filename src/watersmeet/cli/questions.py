"""What a script's queries are asked without running them for good: `watersmeet explain`, `timeline` and `why`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from watersmeet.errors import BindError
from watersmeet.explain.explaining import explained as explained_plan
from watersmeet.explain.text import Line
from watersmeet.explain.together import Together, together, together_svg
from watersmeet.hosts.local.host import LocalHost
from watersmeet.pictures.page import Shown, page
from watersmeet.plan.explaining import Explaining
from watersmeet.runtime.script import Job, read_script
from watersmeet.runtime.shared_parts import shared_parts
from watersmeet.runtime.sharing import apart_words, fed_together
from watersmeet.timeline import Part, timeline
from watersmeet.why import why
from watersmeet.why.asked import parse_rows

TOGETHER, APART = "in one process together", "in one process apart"


def explain_script(text: str, format: str, query: str | None, *, analyze: bool, sample: int) -> str:
    jobs = read_script(text, open_sources=analyze, explain=True)
    groups = fed_together(jobs)
    shared = {name: parts for group in groups for name, parts in shared_parts(group).items()}
    found = [] if query is not None else [one for group in groups if (one := together(group, shared)) is not None]
    apart = [] if query is not None else apart_words(jobs)
    if format == "svg" and found and len(jobs) > 1:  # of several queries a picture shows what they share
        return together_svg(found, apart)
    # Else it is of one; a page, a text and JSON hold as many as there are.
    if query is not None or format == "svg":
        jobs = [chosen(jobs, query)]

    def explained(job: Job, format: str) -> str:
        measured = analyze or (job.explaining is not None and job.explaining.analyze)
        return explained_plan(job.plan, Explaining(format, measured, sample), LocalHost(), shared[job.name])

    if format == "html":
        said = [*(line for one in found for line in one.lines()), *apart]
        shared_by = (
            [Shown("what the queries share", together_svg(found, apart), "\n".join(said))]
            if found and len(jobs) > 1
            else []
        )
        pictures = [Shown(job.name, explained(job, "svg"), explained(job, "text")) for job in jobs]
        return page("how the queries run", [*shared_by, *pictures], said)
    return _all([(job.name, explained(job, format)) for job in jobs], found, apart, format)


def _all(answers: Sequence[tuple[str, str]], found: Sequence[Together], apart: Sequence[str], format: str) -> str:
    """Of each query what is told of it, and at the end what some share, and who shares nothing."""
    if format == "json":
        told = [(TOGETHER, json.dumps([one.as_dict() for one in found], indent=2))] if found else []
        told += [(APART, json.dumps(apart, indent=2))] if apart else []
        return "{" + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in [*answers, *told]) + "}"
    if len(answers) == 1:
        return answers[0][1]
    told = [(TOGETHER, "\n".join(str(Line(line)) for line in one.lines()) + "\n") for one in found]
    told += [(APART, "\n".join(str(Line(line)) for line in apart) + "\n")] if apart else []
    return "\n\n".join(f"-- {name}\n{text}" for name, text in [*answers, *told])


def chosen(jobs: list[Job], query: str | None) -> Job:
    """The one of that name, or the only one."""
    names = [job.name for job in jobs]
    if query is None and len(jobs) > 1:
        raise BindError(f"the script has {len(jobs)} queries", hint=f"say which: --query '{names[0]}'")
    for job in jobs:
        if query is None or job.name.lower() == query.lower():
            return job
    raise BindError(f"the script has no query {query!r}", hint=f"it has {', '.join(names)}")


def timeline_script(text: str, query: str | None, part: Part, format: str) -> str:
    drawn = timeline(chosen(read_script(text), query).plan, part)
    return {"svg": lambda: drawn.svg, "html": lambda: drawn.html, "text": lambda: str(drawn)}[format]()


def why_script(text: str, rows: list[str], query: str | None, *, as_json: bool) -> str:
    job = chosen(read_script(text), query)
    found = why(job.plan, parse_rows(rows))
    return json.dumps(found.as_dict(), indent=2) if as_json else str(found)
