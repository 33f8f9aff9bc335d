"""`watersmeet package`: what the executors of a cluster need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from watersmeet.cli.arguments import interruptible, need_spark
from watersmeet.cli.voice import voice
from watersmeet.noticing import phase


def package(
    out: Annotated[Path, typer.Argument(metavar="OUT.tar.gz", help="The archive.")],
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A package that is to come along, as a connector needs it; may be repeated."),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Without what it needs: for executors that have all that installed.")
    ] = False,
) -> None:
    """Write an archive of watersmeet, as it is installed here with all it needs, for the executors of a cluster.

    It goes with `watersmeet run --master URL --package OUT.tar.gz`, or with --archives of spark-submit.
    """
    need_spark()
    with interruptible():
        with phase("packing"):
            from watersmeet.hosts.spark.launching.package import write_package

            made = write_package(out.expanduser(), also or (), alone=alone)
        voice().remark(f"{out}: {made}, {out.expanduser().stat().st_size / 1e6:.0f} MB")
