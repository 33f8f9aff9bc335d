"""Options of the command line that go with one engine only, or not with each other: told, never passed over."""

from __future__ import annotations

from collections.abc import Collection, Iterator

# Why an option of one engine says nothing to the other.
IN_PROCESS = {
    "trigger": "in-process rows are answered as they are read, not in batches that are started",
    "buckets": "in-process the state is not cut into parts",
    "master": "in-process there is no Spark",
    "remote": "in-process there is no Spark",
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
