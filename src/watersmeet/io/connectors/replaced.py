"""What mode = 'overwrite' means to a run that goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def replaced_path(options: Mapping[str, str]) -> str | None:
    """The path whose content a sink replaces when its run begins; None if it replaces nothing.

    >>> replaced_path({"path": "out", "MODE": "overwrite"}), replaced_path({"path": "out"})
    ('out', None)
    """
    given = {name.lower(): value for name, value in options.items()}
    return str(given["path"]) if given.get("mode", "").lower() == "overwrite" and given.get("path") else None


def appending(options: Mapping[str, str], replaced: Collection[str]) -> dict[str, str]:
    """The options of a sink whose run has replaced what was at these paths: what is there since is added to.

    >>> appending({"path": "out", "mode": "overwrite"}, {"out"})
    {'path': 'out', 'mode': 'append'}
    """
    given = {name.lower(): value for name, value in options.items()}
    return {**given, "mode": "append"} if replaced_path(given) in replaced else given
