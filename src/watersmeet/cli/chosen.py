"""Which of a script's queries a command is about."""

from __future__ import annotations

from watersmeet.errors import BindError
from watersmeet.runtime.script import Job


def chosen(jobs: list[Job], query: str | None) -> Job:
    """The one of that name, or the only one."""
    names = [job.name for job in jobs]
    if query is None and len(jobs) > 1:
        raise BindError(f"the script has {len(jobs)} queries", hint=f"say which: --query '{names[0]}'")
    for job in jobs:
        if query is None or job.name.lower() == query.lower():
            return job
    raise BindError(f"the script has no query {query!r}", hint=f"it has {', '.join(names)}")
