"""The command line: arguments only. Everything else loads when a command needs it."""

from __future__ import annotations

import os
import sys
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import (
    BAD_INPUT,
    FAILED,
    Engine,
    EngineOption,
    Script,
    WithFiles,
    WithView,
    chosen_engine,
    fail,
    interruptible,
    masters,
    need_server,
    need_spark,
    text_of,
)
from watersmeet.cli.clean import clean
from watersmeet.cli.merge import merge
from watersmeet.cli.package import package
from watersmeet.cli.replace import replace as replace_query
from watersmeet.cli.run import run
from watersmeet.cli.savepoint import savepoint
from watersmeet.cli.state import app as state
from watersmeet.cli.voice import speak, voice
from watersmeet.errors import CatalogError, OptionError, SetupError, SqlError, WatersmeetError
from watersmeet.lab.cli import app as lab
from watersmeet.noticing import phase
from watersmeet.runtime.interrupt import INTERRUPTED

if TYPE_CHECKING:
    from watersmeet.cli.complete import Asked
    from watersmeet.runtime.interrupt import Interrupts

PIPE_CLOSED = 141  # as of a process that SIGPIPE ended

app = typer.Typer(
    name="watersmeet",
    cls=WithFiles,
    help="Continuous queries over sliding windows of data streams.",
    no_args_is_help=True,
    context_settings={"max_content_width": 80},
    pretty_exceptions_enable=False,  # main tells errors
)
app.command(cls=WithView)(run)
app.command()(savepoint)
app.command()(clean)
app.command()(merge)
app.add_typer(state)
app.command()(package)
app.command("replace")(replace_query)
app.add_typer(lab)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
    connectors: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.py", help="A Python file that registers connectors of your own; may be repeated."),
    ] = None,
    functions: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.py", help="A Python file that registers functions and aggregates; may be repeated."),
    ] = None,
) -> None:
    if version:
        from watersmeet import __version__

        typer.echo(f"watersmeet {__version__}")
        raise typer.Exit
    if connectors or functions:
        from watersmeet.io.own_files import load_connectors, load_functions

        for one in connectors or ():
            load_connectors(one)
        for one in functions or ():
            load_functions(one)


@app.command()
def serve(
    file: Script,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where queries keep their progress; else a folder that goes at the end."),
    ] = None,
    savepoint: Annotated[
        str | None,
        typer.Option("--from", metavar="OUT", help="Begin new runs, with a new checkpoint, from a savepoint."),
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="With --from: begin sinks anew, also if they are ahead of the savepoint.")
    ] = False,
    host: Annotated[str, typer.Option(help="The address; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any that is free.")] = 8740,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="WATERSMEET_TOKEN",
            help="What requests must bring along. Others on this machine see options: better in the environment.",
        ),
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="The most rows that are answered at once.")] = 1 << 16,
    gather: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="How long a batch waits for more rows; not by default.")
    ] = None,
    commit_every: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="How often answers go into sinks; by default each second.")
    ] = None,
    save_every: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="How often the state is saved; by default each 10 seconds.")
    ] = None,
    skip_batch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:N", help="Leave out a batch with which a query fails again and again."),
    ] = None,
    max_body: Annotated[str, typer.Option(metavar="SIZE", help="The largest body of a POST.")] = "16 MiB",
    max_subscribers: Annotated[int, typer.Option(min=1, help="How many may listen at a time.")] = 1_000,
    keep_rows: Annotated[
        int, typer.Option(min=1, help="So many of the last rows of a query are kept for those who come back.")
    ] = 100_000,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell all that goes to stderr as JSON, an object on every line.")
    ] = False,
) -> None:
    """Run every query of a script in this process, with HTTP around them, until Ctrl-C.

    Streams without a source take rows by POST. Answers, their changes, plans and metrics are read over HTTP.
    """
    speak(as_json=as_json, quiet=quiet)
    need_server()
    text = text_of(file)
    with phase("reading the script"):
        from watersmeet.cli.serve import Address, serve_script
        from watersmeet.runtime.run_settings import COMMAND_LINE, RunSettings
        from watersmeet.serve.limits import Limits

        settings = RunSettings.read(
            COMMAND_LINE, checkpoint=checkpoint, batch_rows=batch_rows, gather=gather, save_every=save_every,
            commit_every=commit_every, savepoint=savepoint, afresh=afresh,
            script=None if str(file) == "-" else str(file.expanduser().absolute()),
        )  # fmt: skip
        limits = Limits(body_bytes=_bytes("--max-body", max_body), subscribers=max_subscribers, kept_rows=keep_rows)
    with interruptible():
        serve_script(text, settings, Address(host, port, token or None), limits, skip_batch or ())


def _bytes(option: str, written: str) -> int:
    from watersmeet.plan.memory import Memory

    try:
        size = Memory.parse(written)
    except WatersmeetError:
        size = None
    if size is None or size.size is None:
        fail(f"{option} {written} is no size\nhint: write it as '16 MiB'", BAD_INPUT)
    return size.size


class PlanFormat(StrEnum):
    text = "text"
    json = "json"


class PictureFormat(StrEnum):
    text = "text"
    json = "json"
    svg = "svg"
    html = "html"


Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file instead of stdout.")
]
OneQuery = Annotated[str | None, typer.Option(metavar="NAME", help="Which query, if the script has several.")]


@app.command()
def explain(
    file: Script,
    format: Annotated[
        PictureFormat, typer.Option(help="For people, for programs, as a picture, or as a page with pictures.")
    ] = PictureFormat.text,
    query: OneQuery = None,
    output: Output = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run a sample in this process and show what was measured as well.")
    ] = False,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --analyze: stop after about so many rows.")
    ] = 100_000,
) -> None:
    """Show how the queries of a script would run, what that should cost, and why no other way was chosen."""
    with interruptible(), phase("planning"):
        from watersmeet.cli.questions import explain_script

        answer = explain_script(text_of(file), format, query, analyze=analyze, sample=sample)
    _give(answer, output)


def _give(text: str, output: Path | None) -> None:
    """To stdout, or into a file."""
    if output is None:
        typer.echo(text)
        return
    try:
        output.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}\nhint: name a file in a folder that is there", BAD_INPUT)


@app.command()
def why(
    file: Script,
    rows: Annotated[
        list[str],
        typer.Option(metavar="ROWS", help="A row of each input, or of two: a:17,b:23 by number, from 1, or a.id=17."),
    ],
    query: OneQuery = None,
    format: Annotated[PlanFormat, typer.Option(help="How to tell it: for people, or for programs.")] = PlanFormat.text,
) -> None:
    """Tell why some rows did not meet: which condition, which window and by how much, too late, or forgotten."""
    with interruptible(), phase("looking at the rows"):
        from watersmeet.cli.questions import why_script

        answer = why_script(text_of(file), rows, query, as_json=format == PlanFormat.json)
    typer.echo(answer)


class TimelineFormat(StrEnum):
    svg = "svg"
    html = "html"
    text = "text"


@app.command()
def timeline(
    file: Script,
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Draw so many rows at most.")] = 40,
    since: Annotated[
        str | None,
        typer.Option("--since", "--from", metavar="TIME", help="From this event time on: '2026-01-01 12:00:00'."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to this event time.")] = None,
    query: OneQuery = None,
    format: Annotated[
        TimelineFormat | None, typer.Option(help="A picture, a page with it, or words; by default as the file ends.")
    ] = None,
    output: Output = None,
) -> None:
    """Draw a run: rows in event time, how long windows hold them, and which of them met when.

    The query runs in this process to the end of its input; what is drawn of that is said below the picture.
    """
    with interruptible(), phase("running the query"):
        from watersmeet.cli.questions import timeline_script
        from watersmeet.timeline import Part

        by_name = {".html": TimelineFormat.html, ".htm": TimelineFormat.html, ".txt": TimelineFormat.text}
        by_name |= {".svg": TimelineFormat.svg, "": TimelineFormat.svg}
        ending = "" if output is None else output.suffix.lower()
        form = format or by_name.get(ending)
        if form is None:
            raise OptionError(
                f"a timeline cannot be written as {ending!r}",
                hint="name a file.svg or a file.html, or say --format",
            )
        answer = timeline_script(text_of(file), query, Part.of(rows, since, until), form)
    _give(answer, output)


@app.command()
def advise(
    file: Script,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Take about the first so many rows.")] = 50_000,
    policies: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Which policies to try, such as 'prob,rand'; by default all.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="About how long the runs may take.")] = 20.0,
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="In how many buckets or threads it is to run; by default its threads, or the cores."),
    ] = None,
    format: Annotated[PlanFormat, typer.Option(help="How to tell it: for people, or for programs.")] = PlanFormat.text,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw recall by memory as well; needs matplotlib.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Tell how much memory a join needs for how much of its answer, and which keys to spread.

    Runs every query of a script in this process over a sample, in several sizes of memory and by every policy, and
    prints the recall of each beside what is possible at all. Memory that the query asks for is tried as well.
    """
    speak(quiet=quiet)
    with phase("loading"):
        from watersmeet.cli.advise import advise_script

    names = None if policies is None else [name.strip() for name in policies.split(",") if name.strip()]
    with interruptible():
        answer = advise_script(
            text_of(file), sample, names, seconds, plot, buckets, as_json=format is PlanFormat.json, quiet=quiet
        )
    typer.echo(answer)


@app.command()
def complete(
    context: typer.Context,
    file: Script,
    archive: Annotated[
        str | None, typer.Option(metavar="DIR", help="The archive, if it is not where the query's OPTIONS say.")
    ] = None,
    engine: EngineOption = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="The checkpoint of a query on Spark, if it has moved since.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.", autocompletion=masters)] = "local[*]",
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for the rows, instead of the query's sink.")
    ] = None,
    chunk_rows: Annotated[
        int, typer.Option(min=1, help="So many archived rows are joined at a time; each such chunk is kept for good.")
    ] = 1 << 20,
    again: Annotated[
        bool, typer.Option("--again", help="Begin from the beginning, also with what was completed before.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
) -> None:
    """Find the rows that queries in bounded memory lost, each exactly once; may be interrupted and run again."""
    speak(quiet=quiet)
    with phase("loading"):
        from watersmeet.cli.complete import Asked, complete_script
        from watersmeet.runtime.interrupt import Interrupts

    text, interrupts = text_of(file), Interrupts(voice().tell, "chunk")
    chosen = chosen_engine(context, engine, text, read=("checkpoint",))
    asked = Asked(archive, checkpoint, into, chunk_rows, again)
    with interruptible("aborted; the chunk in hand will be done again"):
        if chosen is Engine.local:
            complete_script(text, asked, interrupts, quiet=quiet)
        else:
            _complete_on_spark(text, asked, interrupts, master, quiet)
    if interrupts.requested:
        raise typer.Exit(INTERRUPTED)


def _complete_on_spark(text: str, asked: Asked, interrupts: Interrupts, master: str, quiet: bool) -> None:
    need_spark()
    with phase("starting Spark"):
        from watersmeet.cli.complete import complete_script
        from watersmeet.hosts.spark.bucket.archive import CompleteOnSpark
        from watersmeet.hosts.spark.launching.launch import start_spark
        from watersmeet.hosts.spark.reading.sources import OnSpark

        spark = start_spark(master, tell=voice().remark)
    try:
        complete_script(text, asked, interrupts, CompleteOnSpark(spark), OnSpark(spark), quiet=quiet)
    finally:
        spark.stop()


@app.command()
def check(
    context: typer.Context,
    file: Script,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take the first N rows of each stream; by default all.")
    ] = None,
    engine: EngineOption = None,
    master: Annotated[str, typer.Option(help="Spark's master.", autocompletion=masters)] = "local[*]",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run every query of a script, recompute its answer at every instant with DuckDB, and compare.

    Exit 0: all are equal; 1: one differs, and the first instant at which it does is shown.
    """
    speak(quiet=quiet)
    text = text_of(file)
    with interruptible():
        on_spark = chosen_engine(context, engine, text, otherwise=Engine.local) is Engine.spark
        equal = _check_on_spark(text, sample, master, quiet) if on_spark else _check(text, sample, quiet)
    if not equal:
        raise typer.Exit(FAILED)


def _check(text: str, sample: int | None, quiet: bool) -> bool:
    with phase("loading"):
        from watersmeet.cli.check import check_script

    return check_script(text, sample, None, sys.stdout, quiet=quiet)


def _check_on_spark(text: str, sample: int | None, master: str, quiet: bool) -> bool:
    need_spark()
    with phase("starting Spark"):
        from watersmeet.cli.check import check_script
        from watersmeet.hosts.spark.host import SparkHost
        from watersmeet.hosts.spark.launching.launch import start_spark

        spark = start_spark(master, tell=voice().remark)
    try:
        return check_script(text, sample, SparkHost(spark), sys.stdout, quiet=quiet)
    finally:
        spark.stop()


@app.command()
def demo(
    context: typer.Context,
    engine: EngineOption = None,
    rows: Annotated[
        int | None, typer.Option(min=3_000, help="How many rows to make; by default 3 million, in-process 6 million.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes other traffic.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="A folder to keep the data, the script and the answer in.")] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="From topics of Kafka into one, in-process, with a broker that is started.")
    ] = False,
) -> None:
    """Three camera streams, joined before your eyes, and checked."""
    if kafka:
        _kafka_demo(rows, seed, keep)
    chosen = chosen_engine(context, engine)
    if chosen is Engine.spark:
        need_spark()
    with phase("loading"):
        from watersmeet.demo import run_demo

    with interruptible():
        raise typer.Exit(run_demo(rows, seed, keep, chosen.value))


def _kafka_demo(rows: int | None, seed: int, keep: Path | None) -> None:
    if keep is not None:
        fail("--keep does not go with --kafka: the broker and its topics go at the end\nhint: leave one out", BAD_INPUT)
    with phase("loading"):
        try:
            from watersmeet.demo.kafka import run_kafka_demo
        except ImportError as error:
            fail(f"the demo with Kafka needs {error.name}\nhint: pip install 'watersmeet[kafka]'", BAD_INPUT)
        from watersmeet.demo import QUERY, QUESTION
    with interruptible():
        raise typer.Exit(run_kafka_demo(rows, seed, QUERY, QUESTION))


def _example_names(incomplete: str) -> list[str]:
    from watersmeet.cli.examples import EXAMPLES

    return [name for name in EXAMPLES if name.startswith(incomplete)]


@app.command()
def examples(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Which to write out.", autocompletion=_example_names, show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to.")] = Path("examples"),
) -> None:
    """List the examples, or write one into a folder, with its data, ready to run from here."""
    from watersmeet.cli.examples import list_examples, write_example

    if name is None:
        typer.echo(list_examples())
    else:
        write_example(name, folder, typer.echo)


@app.command("warm-up")
def warm_up(
    spark: Annotated[
        bool, typer.Option("--spark", help="Keep what Java loads for Spark instead: a minute or two, and 200 MB.")
    ] = False,
) -> None:
    """Do now, and once, what first queries are waited for: compile all kernels."""
    with interruptible("aborted; nothing of it was kept" if spark else "aborted"):
        began = time.monotonic()
        done = _keep_classes() if spark else _compile_kernels()
        voice().tell(f"{done}, after {time.monotonic() - began:.0f} s")


def _compile_kernels() -> str:
    from watersmeet.warm_up import warm_up

    with phase("compiling kernels"):
        compiled = warm_up()
    return "all kernels are compiled" if compiled else "all kernels came along compiled"


def _keep_classes() -> str:
    need_spark()
    from watersmeet.hosts.spark.class_training import make_archive

    path, is_new = make_archive(voice().tell)
    return f"Java {'has' if is_new else 'had'} its classes in {path} ({path.stat().st_size >> 20} MB)"


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """Whoever runs a command does not want to know which line of ours warns."""
    voice().warn(message)


def main() -> None:
    """Run the command line. Exit 0: all went well; 1: a query failed while it ran; 2: bad usage, SQL or set-up;
    141: who read the output, such as head, wanted no more, and the run ended there."""
    warnings.showwarning = _show_warning
    speak()
    try:
        app(prog_name="watersmeet")  # also where it is started in another way: shells complete this name
    except (SqlError, CatalogError, SetupError) as error:
        fail(error, BAD_INPUT)
    except WatersmeetError as error:
        fail(error, FAILED)
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # which the command line takes for any failure
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to be written goes nowhere
        raise SystemExit(PIPE_CLOSED) from None
    finally:
        speak()
