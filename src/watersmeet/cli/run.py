"""`watersmeet run`: the queries of a script, in this process or on Spark."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import (
    BAD_INPUT,
    Engine,
    EngineOption,
    Script,
    checked_port,
    chosen_engine,
    fail,
    interruptible,
    masters,
    need_server,
    need_spark,
    text_of,
    was_typed,
)
from watersmeet.cli.voice import speak, voice
from watersmeet.noticing import phase
from watersmeet.runtime.interrupt import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watersmeet.hosts.local.pulled_execution import PulledExecution
    from watersmeet.runtime.interrupt import Interrupts
    from watersmeet.runtime.metrics import Metrics
    from watersmeet.runtime.run_settings import RunSettings
    from watersmeet.runtime.script import Job
    from watersmeet.runtime.watched import Board


def run(
    context: typer.Context,
    file: Script,
    engine: EngineOption = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take what is there now, then end; else run until Ctrl-C.")
    ] = False,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where a query's progress is kept, to go on from next time.")
    ] = None,
    savepoint: Annotated[
        str | None,
        typer.Option("--from", metavar="OUT", help="Begin a new run, with a new checkpoint, from a savepoint."),
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="With --from: begin sinks anew, also if they are ahead of the savepoint.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="Start a batch every so often, such as '10 seconds'.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.", autocompletion=masters)] = "local[*]",
    remote: Annotated[
        str | None, typer.Option(metavar="URL", help="A Spark Connect server, sc://host:port, instead of a master.")
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="With the --master of a cluster: what `watersmeet package` made, for its executors."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(min=1, help="Into how many parts the state is cut; by default one per core.")
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="In-process: the most rows taken from an input at once.")] = 1
    << 16,
    gather: Annotated[
        str | None,
        typer.Option(metavar="INTERVAL", help="In-process with --checkpoint: how long a batch waits for more rows."),
    ] = None,
    commit_every: Annotated[
        str | None,
        typer.Option(metavar="INTERVAL", help="In-process with --checkpoint: how often answers go into the sink."),
    ] = None,
    save_every: Annotated[
        str | None,
        typer.Option(metavar="INTERVAL", help="In-process with --checkpoint: how often the state is saved."),
    ] = None,
    flush: Annotated[
        bool,
        typer.Option(
            "--flush", help="With --available-now and --checkpoint: answer at the end also what waits for later rows."
        ),
    ] = False,
    skip_batch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:N",
            help="With --checkpoint: leave out a batch with which a query fails or floods again and again.",
        ),
    ] = None,
    final: Annotated[
        bool, typer.Option("--final", help="In-process: give the answer at the end of the input, not its changes.")
    ] = False,
    view: Annotated[
        str | None,
        typer.Option(metavar="[PORT]", help="A page to watch the run on, at 127.0.0.1; it stays until Ctrl-C."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell all that goes to stderr as JSON, an object on every line.")
    ] = False,
) -> None:
    """Run every query of a script; a bare SELECT prints to the console."""
    speak(as_json=as_json, quiet=quiet)
    if as_json and quiet:
        fail("--json does not go with --quiet: the one tells more than the other\nhint: leave one out", BAD_INPUT)
    if view is not None:
        need_server()
        checked_port(view)
    text = text_of(file)
    with interruptible():
        chosen = chosen_engine(context, engine, text)
    from watersmeet.runtime.run_settings import COMMAND_LINE, RunSettings

    if chosen is Engine.local and checkpoint is None:
        _check_without_checkpoint(context)
    settings = RunSettings.read(
        COMMAND_LINE, checkpoint=checkpoint, available_now=available_now, flush=flush, batch_rows=batch_rows,
        gather=gather, save_every=save_every, commit_every=commit_every, trigger=trigger, buckets=buckets,
        skip_batch=skip_batch or (), savepoint=savepoint, afresh=afresh,
        script=None if str(file) == "-" else str(file.expanduser().absolute()),
    )  # fmt: skip
    with interruptible():
        if chosen is Engine.spark:
            _run_on_spark(text, settings, (master, _settings(conf or []), remote), view, package)
        elif checkpoint is None:
            _run_in_process(text, batch_rows, final, view)
        else:
            _run_durable(text, settings, final, view)


def _run_in_process(text: str, batch_rows: int, final: bool, view: str | None) -> None:
    with phase("reading the script"):
        from watersmeet.cli.view import viewing
        from watersmeet.explain.explaining import explained
        from watersmeet.hosts.local.host import LocalHost
        from watersmeet.hosts.local.run_job import check_sinks, executions
        from watersmeet.hosts.local.side_files import beside_all
        from watersmeet.runtime.interrupt import Interrupts
        from watersmeet.runtime.script import read_script
        from watersmeet.runtime.sharing import fed_together
        from watersmeet.runtime.watched import Board

        jobs = read_script(text, explain=True)
        shown = [job for job in jobs if job.explaining is None]
        # All are made before the first one runs, so that what is wrong with the last shows at once.
        groups = fed_together(jobs)
        found = [executions(group, batch_rows) for group in groups if group[0].explaining is None]
        runs = {name: run for one in found for name, run in one.items()}
        check_sinks(jobs, final=final)
    interrupts = Interrupts(voice().tell)
    boards = {} if view is None else {job.name: Board(job.plan, adds_up=True) for job in shown}
    with viewing(view, shown, boards, LocalHost()) as page:
        with beside_all(job.plan for job in shown) as beside:
            for group in groups:
                if group[0].explaining is not None:
                    typer.echo(explained(group[0].plan, group[0].explaining, LocalHost()))
                    continue
                for job in group:
                    runs[job.name].beside = beside
                _run_group([(job, runs[job.name]) for job in group], interrupts, final, boards)
                if interrupts.requested:
                    raise typer.Exit(INTERRUPTED)
        if page is not None:
            page.stay()


def _check_without_checkpoint(context: typer.Context) -> None:
    """Refuse what only a run that goes on has a use for."""
    for name in ("flush", "gather", "commit_every", "save_every", "skip_batch"):
        if was_typed(context, name):
            fail(f"--{name.replace('_', '-')} goes with --checkpoint DIR\nhint: leave it out, or add one", BAD_INPUT)


def _run_durable(text: str, settings: RunSettings, final: bool, view: str | None) -> None:
    if not str(settings.checkpoint).strip():
        fail(
            "--checkpoint names no folder\nhint: leave it out, or name one; is a variable of the shell unset?",
            BAD_INPUT,
        )
    if final:
        fail("--final does not go with --checkpoint: a run that goes on has no end\nhint: leave one out", BAD_INPUT)
    with phase("reading the script"):
        from watersmeet.cli.run_durable import run_durable
    if run_durable(text, settings, view):
        raise typer.Exit(INTERRUPTED)


def _run_on_spark(
    text: str,
    settings: RunSettings,
    spark_choices: tuple[str, dict[str, str], str | None],
    view: str | None,
    package: str | None,
) -> None:
    need_spark()
    from watersmeet.cli import ctrl_c_on_spark

    with ctrl_c_on_spark.without_tracebacks():
        with phase("starting Spark"):
            from watersmeet.cli.run_on_spark import run_command
            from watersmeet.hosts.spark.launching.launch import start_spark
            from watersmeet.runtime.script import check_declared

            check_declared(text)  # a mistake need not wait until Spark has started
            spark = start_spark(*spark_choices, tell=voice().remark, package=package)
            ctrl_c_on_spark.take_back()
        try:
            stopped = run_command(spark, text, settings, view)
        finally:
            spark.stop()
    if stopped:
        raise typer.Exit(INTERRUPTED)


def _settings(conf: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in conf]
    for (name, equals, _), written in zip(pairs, conf, strict=True):
        if not equals or not name:
            fail(f"--conf {written} is not of the form name=value", BAD_INPUT)
    return {name.strip(): value for name, _, value in pairs}


def _run_group(
    group: Sequence[tuple[Job, PulledExecution]], interrupts: Interrupts, final: bool, boards: Mapping[str, Board]
) -> None:
    """Queries that are fed together, of which each is told of as if it were alone."""
    from watersmeet.hosts.local.run_job import Delivery, run_together, screen_for
    from watersmeet.hosts.local.skew import skew_text
    from watersmeet.runtime.left_out import named
    from watersmeet.runtime.progress import describe
    from watersmeet.runtime.sharing import queries_in_words, shared_words

    jobs, screen = [job for job, _ in group], screen_for([job for job, _ in group])
    for words in shared_words(jobs):
        voice().remark(words)
    known = {job.name: run.metrics for job, run in group}
    started = time.monotonic()
    ended: list[tuple[Delivery, str, float]] = []

    def note_end(one: Delivery) -> None:
        ended.append((one, "stopped" if interrupts.requested else "done", time.monotonic() - started))

    def tell_ends() -> None:
        for one, how, seconds in ended:
            words = f"{one.job.name} {how}: {describe(one.run.metrics, seconds)}"
            uneven = skew_text(one.job.plan, one.run.metrics)
            words += "" if uneven is None else f"\n  {uneven}"
            voice().ended(one.job.name, how, one.run.metrics, seconds, words)

    # Rows printed on the terminal and a line that changes in place would overwrite each other.
    live = not (any(job.is_printed for job in jobs) and sys.stdout.isatty())
    try:
        with voice().progress(", ".join(known), live=live) as progress:

            def update(_: Metrics) -> None:
                progress.update_durable(known, dict.fromkeys(known, 0))

            deliveries = []
            for job, one in group:
                one.tell, one.notice = voice().warn, voice().tell
                if len(group) > 1:
                    one.tell = named(voice().warn, queries_in_words([other.name for other, run in group if run is one]))
                board = boards.get(job.name)
                deliveries.append(Delivery(job, one, update, final=final, board=board, screen=screen))
            run_together(deliveries, interrupts, note_end)
    except Exception as error:
        tell_ends()
        for note in getattr(error, "__notes__", ()):
            voice().tell(note)
        raise
    tell_ends()
