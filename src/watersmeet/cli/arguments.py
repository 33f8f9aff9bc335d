"""What commands share: arguments, options that do not go with each other, scripts as text, and how a command fails."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from watersmeet.cli.voice import voice
from watersmeet.errors import SetupError, WatersmeetError
from watersmeet.noticing import phase
from watersmeet.runtime.interrupt import INTERRUPTED, AbortedInBatch

FAILED, BAD_INPUT = 1, 2
_FILES = ("--connectors", "--functions")

MASTERS = ("local[*]", "local[1]", "local[2]", "local[4]", "local[8]", "yarn", "spark://", "k8s://")


def scripts(incomplete: str) -> list[str]:
    """The SQL files whose names begin so; none, so that the shell offers files by itself, if there are none."""
    folder, _, start = incomplete.rpartition("/")
    below = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").expanduser()
    found = sorted(one.name for one in below.glob("*.sql") if one.name.startswith(start)) if below.is_dir() else []
    prefix = incomplete[: len(incomplete) - len(start)]
    return [prefix + name for name in found]


def masters(incomplete: str) -> list[str]:
    return [one for one in MASTERS if one.startswith(incomplete)]


class Engine(StrEnum):
    local = "local"
    spark = "spark"


ENGINE_VARIABLE = "WATERSMEET_ENGINE"
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        envvar=ENGINE_VARIABLE,
        case_sensitive=False,
        help="Where the queries run; else SET engine = '…' in the script says it, then the environment.",
    ),
]

Script = Annotated[
    Path, typer.Argument(help="A file of SQL statements, or - for stdin.", autocompletion=scripts, show_default=False)
]


# Why an option of one engine says nothing to the other.
IN_PROCESS = {
    "trigger": "in-process rows are answered as they are read, not in batches that are started",
    "buckets": "in-process the state is not cut into parts",
    "master": "in-process there is no Spark",
    "remote": "in-process there is no Spark",
    "package": "in-process there are no executors",
    "conf": "in-process there is no Spark",
}
ON_SPARK = {
    "final": "on Spark apply the changes to a table, see docs/spark.md",
    "batch_rows": "on Spark the source says how much a batch takes, such as maxFilesPerTrigger = '1' in WITH (…)",
    "gather": "on Spark --trigger says how often a batch starts",
    "commit_every": "on Spark every batch is committed",
    "save_every": "on Spark the state is saved with every batch",
}
NOT_TOGETHER = {
    ("master", "remote"): "a run has a Spark of its own or that of a Connect server",
    ("trigger", "available_now"): "a run that takes what is there now and ends starts its batches at once",
}


def misplaced(given: Collection[str], engine: str) -> Iterator[str]:
    """A sentence for every option that was given and would not be read.

    >>> list(misplaced(["quiet", "buckets"], "local"))
    ['--buckets goes with --engine spark: in-process the state is not cut into parts']
    """
    other, reasons = ("spark", IN_PROCESS) if engine == "local" else ("local", ON_SPARK)
    for name, reason in reasons.items():
        if name in given:
            yield f"{_written(name)} goes with --engine {other}: {reason}"
    for (one, two), reason in NOT_TOGETHER.items():
        if engine == "spark" and one in given and two in given:
            yield f"{_written(one)} does not go with {_written(two)}: {reason}"


def _written(name: str) -> str:
    return "--" + name.replace("_", "-")


def chosen_engine(
    context: typer.Context,
    said: Engine | None,
    script: str = "",
    *,
    otherwise: Engine = Engine.spark,
    read: tuple[str, ...] = (),
) -> Engine:
    """Where a command works: as the command line says, else the script, else the environment. Options that this engine
    does not read are refused, but for those of `read`, which any engine does."""
    # What was typed, not what has a default: defaults of the other engine are no fault of the user's.
    typed = {name for name in context.params if was_typed(context, name)}
    if said is not None and "engine" in typed:
        engine, by = said, ""
    elif (in_script := _engine_said(script)) is not None:
        engine, by = Engine(in_script), f"; SET engine in the script says {in_script}"
    elif said is not None:
        engine, by = said, f"; {ENGINE_VARIABLE} says {said.value}"
    else:
        engine, by = _without_word(otherwise), ""
    wrong = list(misplaced(typed - set(read), engine.value))
    if wrong:
        fail("\n".join([*wrong, f"hint: leave {'it' if len(wrong) == 1 else 'them'} out{by}"]), BAD_INPUT)
    return engine


def _engine_said(script: str) -> str | None:
    if not script:
        return None
    with phase("reading the script"):
        from watersmeet.runtime.script import engine_said

        return engine_said(script)


def was_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _without_word(otherwise: Engine) -> Engine:
    if otherwise is Engine.local or has_spark():
        return otherwise
    voice().tell("Spark is not installed (watersmeet[spark] brings it): this runs in-process")
    return Engine.local


ANY = "any"  # stands for a port that was not said


class WithView(TyperCommand):
    """A command whose --view may have a port behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_port(args))


def with_port(args: Sequence[str]) -> list[str]:
    """
    >>> with_port(["a.sql", "--view"]), with_port(["--view", "a.sql"]), with_port(["--view", "80", "a.sql"])
    (['a.sql', '--view=any'], ['--view=any', 'a.sql'], ['--view=80', 'a.sql'])
    """
    found: list[str] = []
    left = list(args)
    while left:
        one = left.pop(0)
        if one == "--":
            return [*found, one, *left]
        if one == "--view":
            one = f"--view={left.pop(0) if left and left[0].isdecimal() else ANY}"
        found.append(one)
    return found


class WithFiles(TyperGroup):
    """Commands whose files of connectors and functions may be named before the command or behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, files_first(args))


def files_first(args: Sequence[str]) -> list[str]:
    """
    >>> files_first(["run", "a.sql", "--functions", "f.py", "-q"])
    ['--functions', 'f.py', 'run', 'a.sql', '-q']
    """
    files, others, left = list[str](), list[str](), list(args)
    while left:
        one = left.pop(0)
        if one == "--":
            return [*files, *others, one, *left]
        if one in _FILES:
            files += [one, *left[:1]]
            del left[:1]
        else:
            (files if one.startswith(tuple(f"{name}=" for name in _FILES)) else others).append(one)
    return [*files, *others]


def checked_port(written: str) -> str:
    if written != ANY and not (written.isdecimal() and len(written) < 6 and int(written) < 1 << 16):
        raise SetupError(
            f"--view {written} is no port", hint="a number up to 65535; 0, or none, takes any that is free"
        )
    return written


def has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def need_spark() -> None:
    if not has_spark():
        fail("Spark is not installed\nhint: pip install 'watersmeet[spark]', or use --engine local", BAD_INPUT)


def need_server() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "prometheus_client")):
        fail("the server is not installed\nhint: pip install 'watersmeet[serve]'", BAD_INPUT)


def text_of(file: Path) -> str:
    """A script; - stands for stdin, as everywhere."""
    from_stdin = str(file) == "-"
    if from_stdin and sys.stdin.isatty():
        voice().tell("reading SQL statements from the terminal; Ctrl-D ends them")
    try:
        data = sys.stdin.buffer.read() if from_stdin else file.read_bytes()
        return data.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError:
        fail(f"{file} does not exist\nhint: name a file of SQL statements, or - for stdin", BAD_INPUT)
    except IsADirectoryError:
        fail(f"{file} is a folder\nhint: name a file of SQL statements, or - for stdin", BAD_INPUT)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{'stdin' if from_stdin else file} cannot be read as text: {error}", BAD_INPUT)
    except KeyboardInterrupt:
        fail("aborted", INTERRUPTED)


@contextmanager
def interruptible(words: str = "aborted") -> Iterator[None]:
    """Ctrl-C, or a second one, ends the command with a few words."""
    try:
        yield
    except AbortedInBatch:
        fail("aborted; nothing of the batch in hand was kept", INTERRUPTED)
    except KeyboardInterrupt:
        fail(words, INTERRUPTED)


def fail(what: WatersmeetError | str, code: int) -> NoReturn:
    voice().fail(what, code)
    raise SystemExit(code)
