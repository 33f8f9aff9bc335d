"""Paths as Spark takes them: of this machine, or of a file system that a scheme names."""

from __future__ import annotations

import re

NOTE = "watersmeet.json"  # in a checkpoint: whose it is
RUN_NOTE = "watersmeet-run.txt"  # and the name of its run
STARTS_NOTE = "watersmeet-starts.json"  # and the starts of it that may have written to its sinks
SKIPPED_NOTE = "watersmeet-skipped.json"  # and the batches that are left out when they are repeated
TAKEN_NOTE = "watersmeet-taken.json"  # and the last batches whose rows its sinks have


def has_scheme(path: str) -> bool:
    """Whether only Spark knows how to read a path, such as s3a://bucket/folder or file:/folder.

    >>> has_scheme("file:/tmp/checkpoint"), has_scheme("s3a://here"), has_scheme("C:\\here"), has_scheme("/a:/b")
    (True, True, False, False)
    """
    return re.match(r"\w[\w+.-]+:/", path) is not None
