"""The streams of a workload as files, so that scripts, and other systems, can read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from watersmeet.errors import OptionError, SinkError
from watersmeet.io.sinks import sink_from_options
from watersmeet.lab.workloads import find_workload


def write_files(
    name: str, written: Sequence[str], into: Path, kind: str, say: Callable[[str], None], *, overwrite: bool
) -> None:
    """Write every stream and table of a workload to a file of its name. `written` are parameters, as NAME=VALUE."""
    workload = find_workload(name)
    tables = workload.all_made(_parameters(written, name))
    paths = {stream: into / f"{stream}.{kind}" for stream in tables}
    there = [path for path in paths.values() if path.exists()]
    if there and not overwrite:
        raise SinkError(f"{there[0]} already exists", hint="say --overwrite, or choose another folder: --into DIR")
    for stream, table in tables.items():
        sink = sink_from_options(stream, {"sink": kind, "path": str(paths[stream]), "mode": "overwrite"}, table.schema)
        for batch in table.to_batches():
            sink.write(batch)
        sink.close()
        say(f"{paths[stream]}  {table.num_rows:,} rows")


def _parameters(written: Sequence[str], name: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in written]
    odd = next((whole for whole, (_, sign, _) in zip(written, pairs, strict=True) if not sign), None)
    if odd is not None:
        raise OptionError(
            f"{odd!r} is no parameter of a workload",
            hint=f"write NAME=VALUE, for example rows=100000; `watersmeet lab workloads {name}` lists them",
        )
    return {key.strip(): value.strip() for key, _, value in pairs}
