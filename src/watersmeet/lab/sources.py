"""The workloads as sources of SQL: WITH (source = 'lab:zipf', stream = 's1', rows = '1000', …)."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.lab.workloads import WORKLOADS, Workload


def workload_table(name: str, options: Mapping[str, str]) -> pa.Table:
    """The rows of one stream of a workload; all options but `stream` are parameters of the workload."""
    parameters = {key: value for key, value in options.items() if key != "stream"}
    return find_workload(name).table(options.get("stream"), parameters)


def find_workload(name: str) -> Workload:
    if name in WORKLOADS:
        return WORKLOADS[name]
    near = get_close_matches(name, WORKLOADS, n=1)
    hint = f"did you mean lab:{near[0]}? " if near else ""
    raise SourceError(f"there is no workload {name!r}", hint=f"{hint}there are {', '.join(WORKLOADS)}")
