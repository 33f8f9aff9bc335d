"""Which query of a savepoint each of a script goes on with: the others of the script are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.errors import RunError
from watersmeet.model.wording import listed
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.runtime.savepoints.folder import Savepoint
from watersmeet.runtime.script import Job, is_nameless


def queries_of(savepoint: Savepoint, jobs: Sequence[Job]) -> dict[str, str]:
    """The names that they have there, by those that they have in the script. Queries are known by their names; one
    without a name of its own by what it asks, as its place in the script may change, and else by its place. One that is
    alone goes on with the only one that is there."""
    free = savepoint.identities()
    if len(jobs) == 1 and len(free) == 1:
        return {jobs[0].name: next(iter(free))}
    found: dict[str, str] = {}
    for job in jobs:
        if job.name in free and not is_nameless(job):
            found[job.name] = job.name
            del free[job.name]
    for job in jobs:
        name = None if job.name in found else _alike(job, free)
        if name is not None:
            found[job.name] = name
            del free[name]
    for job in jobs:
        if job.name not in found and job.name in free:  # another query, which is refused if it cannot go on
            found[job.name] = job.name
            del free[job.name]
    if not found:
        names = ", ".join(map(repr, savepoint.identities()))
        raise RunError(
            f"the savepoint {savepoint.place} has none of the queries of the script; it has {names}",
            hint="queries are known by their names: some of those that were running must stay, others may be added",
        )
    return found


def _alike(job: Job, free: Mapping[str, str]) -> str | None:
    asked = sum_of(identity_of(job.plan))
    return next((name for name, identity in free.items() if identity == asked), None)


def words_of_left(savepoint: Savepoint, found: Mapping[str, str]) -> list[str]:
    """What there is to say of queries that are in it, and not in the script."""
    left = [name for name in savepoint.identities() if name not in found.values()]
    if not left:
        return []
    are = "is" if len(left) == 1 else "are"
    return [f"{listed(left)} of the savepoint {savepoint.place} {are} not in the script, and left there"]
