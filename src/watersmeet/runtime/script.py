"""A script of CREATE STREAM, TABLE, VIEW and SINK and of queries: what it declares, and the jobs it asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, CatalogError, OptionError, ParseError, SinkError
from watersmeet.io.redacted_text import redacted, redacting
from watersmeet.io.sink_options import check_sink_options
from watersmeet.io.sink_paths import path_shared
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.model.declaration import Declaration
from watersmeet.model.wording import listed
from watersmeet.plan.explaining import Explaining
from watersmeet.plan.query import Plan
from watersmeet.plan.shared_memory import in_parts, shares_memory
from watersmeet.runtime.declaring import Opened, Opener, declare, declare_sink, open_in_process, rows_as_stream
from watersmeet.sql import bind_query, bind_view, parse_script
from watersmeet.sql.declarations import declaration_of
from watersmeet.sql.ordering import orders_alone
from watersmeet.sql.parameters import Parameters
from watersmeet.sql.scope import UTC
from watersmeet.sql.syntax import (
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    QuerySyntax,
    SetEngine,
    SetMemory,
    Statement,
)
from watersmeet.warning import PlanWarning, warn

CONSOLE: Mapping[str, str] = {"sink": "console"}


@dataclass(frozen=True)
class Job:
    """One query to run and the options of the sink its results go to; or, with `explaining`, to explain."""

    name: str
    plan: Plan
    sink: Mapping[str, str] = field(repr=False)  # a password may be among them
    explaining: Explaining | None = None

    @property
    def is_printed(self) -> bool:
        return self.sink.get("sink") == CONSOLE["sink"]


def is_nameless(job: Job) -> bool:
    """Whether a query is called by its place in the script, which may change."""
    return job.is_printed and re.fullmatch(r"query \d+", job.name) is not None


def statements_of(text: str, parameters: Parameters | None = None) -> tuple[list[Statement], str]:
    """What a script says, and its text as it is shown with errors, plans and on pages: without secrets."""
    with redacting(text):
        statements = parse_script(text, parameters)
    written = [one.settings for one in statements if isinstance(one, CreateStream | CreateTable | CreateSink)]
    shown = redacted(text, written)
    for kind, name in ((SetEngine, "engine"), (SetMemory, "memory")):
        said = [one for one in statements if isinstance(one, kind)]
        if len(said) > 1:
            raise ParseError(f"{name} is set twice", sql=shown, span=said[1].span, hint="leave one out")
    return statements, shown


def engine_said(text: str) -> str | None:
    """Where a script says that it runs."""
    return next((one.engine for one in statements_of(text)[0] if isinstance(one, SetEngine)), None)


def check_engine(statements: Sequence[Statement], text: str, here: str) -> None:
    """Refuse a script that says to run elsewhere, where whoever runs it has no choice."""
    for one in statements:
        if isinstance(one, SetEngine) and one.engine != here:
            place = "in this process" if here == "local" else "on Spark"
            problem = f"the script says engine {one.engine!r}, and here queries run {place}"
            raise BindError(problem, sql=text, span=one.span, hint="leave it out; `watersmeet run` goes by it")


def read_script(
    text: str,
    catalog: Catalog | None = None,
    *,
    open_sources: bool = True,
    opener: Opener = open_in_process,
    explain: bool = False,
    parameters: Parameters | None = None,
    timezone: str = UTC,
    pushed: bool = False,
    only_on: str | None = None,
) -> list[Job]:
    """Declare what a script creates in the catalog and give its queries as jobs, in order.

    Without `open_sources`, inputs whose columns are declared are not looked at: enough for EXPLAIN. `opener` is
    how the host opens the others. With `explain` its EXPLAIN statements are among the jobs; else they are only checked.
    `parameters` are the values of the places in its text, `timezone` is the zone of queries that say none, and with
    `pushed` a stream may be without a source. `only_on`: the engine that it must run on; without
    it whoever calls has chosen one by what `engine_said` gives.
    """
    known = Catalog(lambda rows: rows_as_stream(rows, opener)) if catalog is None else catalog
    jobs: list[Job] = []
    explained: list[Job] = []
    sinks: list[Declaration] = []
    statements, text = statements_of(text, parameters)
    if only_on is not None:
        check_engine(statements, text, only_on)
    set_memory = set_memory_of(statements)
    memory = None if set_memory is None else set_memory.memory
    # EXPLAIN ANALYZE runs its query.
    open_sources = open_sources or (explain and any(isinstance(one, Explain) and one.analyze for one in statements))
    for statement in statements:
        match statement:
            case CreateStream() | CreateTable():
                declared = declaration_of(statement, text)
                declare(declared, known, opener=opener, open_sources=open_sources, pushed=pushed)
            case CreateView():
                declare_view(statement, known, text, timezone)
            case CreateSink(query=query):
                declared = declaration_of(statement, text)
                _check_new(declared, [*jobs, *sinks])
                if query is None:
                    declare_sink(declared, known, opener.host)
                    sinks.append(declared)
                else:
                    check_sink_options(declared, opener.host)
                    jobs.append(Job(declared.name, bind_query(query, known, text, timezone, memory), statement.options))
                    warn_of_unordered(query, jobs[-1])
            case QuerySyntax():
                number = (
                    len(jobs) - (len(explained) if explain else 0) + 1
                )  # a checkpoint goes by it: EXPLAIN counts apart
                jobs.append(Job(f"query {number}", bind_query(statement, known, text, timezone, memory), CONSOLE))
            case Explain(query=query, analyze=analyze, format=form):
                explained.append(
                    Job(
                        f"plan {len(explained) + 1}",
                        bind_query(query, known, text, timezone, memory),
                        CONSOLE,
                        Explaining(form, analyze),
                    )
                )
                jobs += explained[-1:] if explain else []
    warn_of_unused(sinks, known)
    if not jobs:
        raise ParseError("the script has nothing to run", hint="add a SELECT, or CREATE SINK … AS SELECT …")
    if set_memory is None:
        return jobs
    wanted = {job.name for job in jobs}
    asked = [*jobs, *(job for job in explained if job.name not in wanted)]
    return [job for job in with_shared_memory(asked, set_memory, text) if job.name in wanted]


def set_memory_of(statements: Sequence[Statement]) -> SetMemory | None:
    return next((one for one in statements if isinstance(one, SetMemory)), None)


def with_shared_memory(jobs: Sequence[Job], said: SetMemory, text: str) -> list[Job]:
    """The jobs with what each has of the memory that their script sets; one that is explained has as much as if it were
    one of those that run."""
    who = {job.name: job.plan for job in jobs if shares_memory(job.plan)}
    if not who:
        raise BindError(
            "SET memory is for joins of two streams or more, which may forget rows; the script has none, or each says "
            "memory, shed = 'none' or when_full itself",
            sql=text,
            span=said.span,
            hint="leave it out; a query says what it may keep in OPTIONS (memory = '64 MB')",
        )
    run = {job.name: job.plan for job in jobs if job.name in who and job.explaining is None}
    try:
        parts = in_parts(run, said.memory) if run else {}
        for name, plan in who.items():
            parts |= {} if name in run else {name: in_parts({**run, name: plan}, said.memory)[name]}
    except OptionError as error:
        raise error.at(text, said.span) from None
    beside = [job.name for job in jobs if job.explaining is None and job.name not in who]
    if beside:
        warn(PlanWarning("beside_memory", f"{_keep(beside)} beside the memory that is set: {_WHO_SHARES}"))
    return [replace(job, plan=parts.get(job.name, job.plan)) for job in jobs]


def one_with_shared_memory(plan: Plan, said: SetMemory, text: str) -> Plan:
    """The same of a query that is asked by itself."""
    (job,) = with_shared_memory([Job("the query", plan, CONSOLE)], said, text)
    return job.plan


_WHO_SHARES = (
    "only joins of streams can forget rows, where each row of an answer stands for itself, and only those that say no "
    "memory of their own share it"
)


def _keep(names: Sequence[str]) -> str:
    return f"{listed(names)} {'keeps what it needs' if len(names) == 1 else 'keep what they need'}"


def check_declared(text: str) -> None:
    """Raise what is wrong with a script that is to run on another host, as far as can be told before that is started:
    all of it if every CREATE says its columns, else what stands before the first that does not."""
    with suppress(_ColumnsUnknownError):
        read_script(text, open_sources=False, opener=_OpenNothing(), explain=True)


class _ColumnsUnknownError(Exception):
    pass


class _OpenNothing:
    host = "spark"

    def __call__(self, declared: Declaration) -> Opened:
        raise _ColumnsUnknownError


def _check_new(sink: Declaration, others: Sequence[Job | Declaration]) -> None:
    if any(one.name.lower() == sink.name.lower() for one in others):
        problem = f"sink {sink.name!r} is created twice"
        raise BindError(problem, sql=sink.sql, span=sink.span, hint="rename one")
    for one in others:
        path = path_shared(sink.options, one.sink if isinstance(one, Job) else one.options)
        if path is not None:
            raise BindError(_same_path(sink.name, one.name, path), sql=sink.sql, span=sink.span, hint=OWN_PATHS)


OWN_PATHS = (
    "give each a path of its own; or UNION ALL makes one query of them. Into a folder that is there several write with "
    "mode = 'append'"
)


def _same_path(name: str, other: str, path: str) -> str:
    return f"sinks {other!r} and {name!r} would both write to {path}, each in the place of what the other wrote"


def check_path_of_its_own(job: Job, others: Sequence[Job]) -> None:
    """Of one that begins beside others."""
    for other in others:
        path = path_shared(job.sink, other.sink)
        if path is not None:
            raise SinkError(_same_path(job.name, other.name, path), hint=OWN_PATHS)


def warn_of_unused(sinks: Sequence[Declaration], catalog: Catalog) -> None:
    """A sink that no stream speaks of stays empty, for a reason that somebody should know."""
    streams = [one for name in catalog.names() if isinstance(one := catalog[name], Stream)]
    spoken_of = {sink.name.lower() for one in streams for sink in (one.bad_to, one.late_to) if sink is not None}
    for sink in sinks:
        if sink.name.lower() not in spoken_of:
            warn(
                PlanWarning(
                    "unused_sink",
                    f"nothing goes to sink {sink.name!r}: it has no query, and no stream says on_bad = 'sink "
                    f"{sink.name}' or on_late = 'sink {sink.name}'",
                )
            )


def warn_of_unordered(query: QuerySyntax, job: Job) -> None:
    """Rows go into a sink as they become certain, in no other order than that."""
    if orders_alone(query) and job.plan.kind != "snapshots" and not job.is_printed:
        text = (
            f"ORDER BY without LIMIT means nothing in sink {job.name!r}, into which rows go as they become certain; it "
            f"orders what is given whole, as run --final, final() and RSTREAM … EVERY do"
        )
        warn(PlanWarning("unused_order", text))


def declare_view(statement: CreateView, catalog: Catalog, text: str, timezone: str = UTC) -> None:
    try:
        if not statement.replace:  # before its query is read, which does not see what has its name
            catalog.check_new(statement.name)
        catalog.add(bind_view(statement, catalog, text, timezone), replace=statement.replace)
    except CatalogError as error:
        raise BindError(error.message, hint=error.hint, sql=text, span=statement.name_span) from None
