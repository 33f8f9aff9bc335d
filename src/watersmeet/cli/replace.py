"""`watersmeet replace`: another query takes the place of one that runs, and its sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watersmeet.cli.arguments import Script, interruptible, text_of
from watersmeet.cli.replace_on_spark import Asked, replace_on_spark
from watersmeet.cli.savepoint import old_text
from watersmeet.cli.voice import voice
from watersmeet.noticing import phase
from watersmeet.runtime.run_settings import COMPARE_S, seconds_of

if TYPE_CHECKING:
    from watersmeet.hosts.local.durable.jobs import DurableJobs


def replace(
    checkpoint: Annotated[
        str, typer.Argument(help="The checkpoint folder of a run; of one on Spark that has stopped.")
    ],
    script: Script,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="NAME", help="Only this one; by default all that differ under their names."),
    ] = None,
    compare: Annotated[
        str,
        typer.Option(
            metavar="INTERVAL",
            help="For how long answers of both are compared; '0 s': not at all. On Spark, those of the last rows.",
        ),
    ] = f"{COMPARE_S:g} s",
    if_same: Annotated[
        bool, typer.Option("--if-same", help="Change nothing if the two gave other answers of the same rows.")
    ] = False,
    before: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="Of a run that has stopped, the script as it was; by default the file that the run was given.",
        ),
    ] = None,
) -> None:
    """Have a changed query take the place of the one that runs under its name, and its sink, at one batch: it is built
    beside it, compared with it, and no answer is lost or comes twice."""
    with interruptible():
        folder, path = Path(checkpoint).expanduser(), script.expanduser().absolute()
        text_of(script)  # what is wrong with it is told here
        compare_s = seconds_of("--compare", compare)
        with phase("reading the checkpoint"):
            from watersmeet.hosts.local.durable.checkpoint_state import is_checkpoint
            from watersmeet.hosts.local.durable.requests import REPLACE, ask, is_running, scripts_of

        with phase("building the new query"):
            if not is_checkpoint(folder):
                asked = Asked(path, query, round(compare_s * 1e6), if_same)
                words = replace_on_spark(folder.absolute(), asked, before)
            elif is_running(folder):
                words = ask(folder, REPLACE, script=str(path), query=query, compare_s=compare_s, if_same=if_same)
            else:
                jobs = _of_stopped(folder, old_text(before, scripts_of(folder)))
                try:
                    words = jobs.replace_by(text_of(script), str(path), query, compare_s, if_same=if_same)
                finally:
                    jobs.stop()
        for line in words:
            voice().remark(line)


def _of_stopped(folder: Path, text: str) -> DurableJobs:
    """The run as it was, in this process."""
    from watersmeet.hosts.local.durable.jobs import DurableJobs
    from watersmeet.runtime.declaring import OpenOnce, open_to_go_on
    from watersmeet.runtime.run_settings import RunSettings
    from watersmeet.runtime.script import read_script

    opener = OpenOnce(open_to_go_on)
    read = read_script(text, opener=opener)
    jobs = DurableJobs(read, folder, RunSettings(checkpoint=folder), tell=voice().warn, opener=opener, as_it_was=True)
    jobs.start()
    return jobs
