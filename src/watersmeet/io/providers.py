"""Sources that are made rather than read: `source = 'lab:nexmark'` asks the provider `lab` for `nexmark`.

A provider stands above the engine, so the engine knows it by name only and loads it when a script asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

import pyarrow as pa

from watersmeet.model.stream_options import options_of

Provider = Callable[[str, Mapping[str, str]], pa.Table]
# Where the function is that takes what follows the colon and the options of WITH, and gives the rows.
PROVIDERS: dict[str, str] = {"lab": "watersmeet.lab.workloads:workload_table"}
# Options that say how rows are taken, not which ones they are; a rate may be both.
NOT_FOR_PROVIDERS = ((options_of("stream", "files") - {"path"}) | {"maxfilespertrigger"}) - {"rate"}


def is_provided(kind: str | None) -> bool:
    return kind is not None and kind.partition(":")[0] in PROVIDERS and ":" in kind


def provided(kind: str, options: Mapping[str, str]) -> pa.Table:
    """The rows that a source `provider:what` stands for; names of options are in lower case."""
    provider, _, what = kind.partition(":")
    module, _, name = PROVIDERS[provider].partition(":")
    make = cast(Provider, getattr(import_module(module), name))
    # A provider refuses options it does not know, so those of the engine are kept from it.
    return make(what, {key: value for key, value in options.items() if key not in NOT_FOR_PROVIDERS})
