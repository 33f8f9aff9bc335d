"""The connectors that are known by name: ours, those that are registered, and those of installed packages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from watersmeet.errors import OptionError, SetupError
from watersmeet.io.connectors.contract import Connector
from watersmeet.io.filesystems import is_in_store
from watersmeet.io.path_formats import ALIASES, KINDS
from watersmeet.model.names import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Where the Connector of a name is, as 'module:name'; that module imports no library of its own.
OURS: Mapping[str, str] = {
    "delta": "watersmeet.io.connectors.delta:DELTA",
    "duckdb": "watersmeet.io.connectors.databases:DUCKDB",
    "postgres": "watersmeet.io.connectors.databases:POSTGRES",
    "sqlite": "watersmeet.io.connectors.databases:SQLITE",
    "kafka": "watersmeet.io.connectors.kafka:KAFKA",
    "iceberg": "watersmeet.io.connectors.iceberg:ICEBERG",
    "files": "watersmeet.io.connectors.files:FILES",
}
# A package that is installed brings connectors under this group of entry points, each by its name.
GROUP = "watersmeet.connectors"
_FORMATS = (*KINDS, *ALIASES)
_registered: dict[str, Connector] = {}
_VARIABLE = re.compile(r"\$\{(\w*)\}")


def register(connector: Connector) -> None:
    """Make a connector known by its name, in this process. The same name again replaces it."""
    name = connector.name.lower()
    if not re.fullmatch(r"[a-z][a-z0-9_.-]*", name):
        raise OptionError(f"{connector.name!r} is no name for a connector", hint="letters, digits, '_', '.' and '-' do")
    _registered[name] = connector


def registered() -> Mapping[str, Connector]:
    """What was registered, by names."""
    return _registered


def forget(name: str) -> None:
    """Take back what was registered."""
    _registered.pop(name.lower(), None)


def connector_named(name: str | None) -> Connector | None:
    """The connector of that name; None if it is no connector's."""
    if name is None:
        return None
    name = name.lower()
    if name in _registered:
        return _registered[name]
    if name in OURS:
        return _attribute(OURS[name])  # type: ignore[no-any-return]
    # To look for what is installed takes longer than all else that names mean; what files are written as is ours.
    return _loaded(name) if name not in _FORMATS and name in _installed() else None


def connector_of(word: str, options: Mapping[str, str]) -> Connector | None:
    """The connector that an option names, `source` or `sink`; or the one for files, if there is none of that name and
    the path is an address of a store. Names of options are in lower case."""
    named = connector_named(options.get(word))
    if named is not None or not is_in_store(options.get("path", "")):
        return named
    kind = options.get(word, "").lower()
    return connector_named("files") if kind in ("", *_FORMATS) else None


def names() -> list[str]:
    return sorted({*OURS, *_registered, *_installed()})


def known() -> list[Connector]:
    """Ours and those that were registered. A package's own is loaded only if it is named: one that is broken is no
    trouble of the others."""
    return [one for name in sorted({*OURS, *_registered}) if (one := connector_named(name)) is not None]


@cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # with an archive and e-mail behind it, for names that few queries have

    return {one.name.lower(): one for one in entry_points(group=GROUP)}


@cache
def _loaded(name: str) -> Connector:
    """The connector of a package."""
    point = _installed()[name]
    try:
        found = point.load()
    except Exception as error:
        raise SetupError(
            f"connector {name!r} of package {_package(point)!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Connector):
        raise SetupError(f"{point.value!r} of package {_package(point)!r} is a {type(found).__name__}, not a Connector")
    return found


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else point.dist.name


def known_sources(given: str = "") -> str:
    """What `source = '…'` may say, and what was meant if that is near."""
    known_names = (
        f"source may be 'parquet', 'csv', 'tsv' or 'json'{_with('source', 'table')}, or 'lab:…' for generated rows"
    )
    return _meant(given) + known_names


def known_sinks(given: str = "") -> str:
    """What `sink = '…'` may say."""
    return f"{_meant(given)}sink may be 'parquet', 'csv', 'tsv', 'json' or 'console'{_with('sink')}"


def _meant(given: str) -> str:
    near = nearest(given, [*names(), *_FORMATS])
    return "" if near is None else f"did you mean {near!r}? "


def _with(*halves: str) -> str:
    able = [one for one in known() if any(getattr(one, half) is not None for half in halves)]
    known_names = [f"'{one.name}'{f' (watersmeet[{one.extra}])' if one.extra else ''}" for one in able]
    known_names += [f"'{name}' ({_package(point)})" for name, point in sorted(_installed().items())]
    return "".join(f", {one}" for one in known_names)


def opener_of(connector: Connector, half: str) -> Callable[[Any], Any] | None:
    """What opens one half of a connector: 'source', 'sink' or 'table'; None if it has no such half."""
    opener = getattr(connector, half)
    if not isinstance(opener, str):
        return opener  # type: ignore[no-any-return]
    try:
        return _attribute(opener)  # type: ignore[no-any-return]
    except ImportError as error:
        if connector.extra is None or str(error.name or "").startswith("watersmeet"):
            raise
        raise SetupError(
            f"{connector.name!r} needs {error.name}, which is not installed",
            hint=f"pip install 'watersmeet[{connector.extra}]'",
        ) from None


def with_environment(owner: str, options: Mapping[str, str]) -> dict[str, str]:
    """Options with their names in lower case, and in place of every ${NAME} what the environment holds."""

    return {option.lower(): _in_environment(owner, option, text) for option, text in options.items()}


def _in_environment(owner: str, option: str, text: str) -> str:
    def held(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise OptionError(
                f"option {option} of {owner!r} speaks of ${{{found[1]}}}, and the environment has no such variable",
                hint=f"export {found[1]}=… before the start",
                option=option,
            )
        return value

    return _VARIABLE.sub(held, text)


def _attribute(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
