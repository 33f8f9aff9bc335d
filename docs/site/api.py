"""The page of the Python API: its text, and behind it every public name, from the docstrings.

The names are those that the modules export, so none can be left out.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Container
from typing import Any

PAGE = "docs/api"
# What programs import; then those whose values are given by calls of these.
MODULES = ("watersmeet", "watersmeet.testing", "watersmeet.spark", "watersmeet.why", "watersmeet.advise")
VALUES_ONLY = ("watersmeet.why", "watersmeet.advise")
DIRECTIVES = {
    "Classes": ("autoclass", ":members:\n:inherited-members: object"),
    "Functions": ("autofunction", ""),
    "Values": ("autodata", ":no-value:"),
    "Errors": ("autoexception", ":show-inheritance:"),
    "Warnings": ("autoexception", ":show-inheritance:"),
}


def public_names(module: str) -> dict[str, object]:
    """What a module exports, but for what one before it in the list has exported."""
    exporting = importlib.import_module(module)
    before = [one for other in MODULES[: MODULES.index(module)] for one in public_names(other).values()]
    found = {name: getattr(exporting, name) for name in exporting.__all__}
    if module in VALUES_ONLY:
        found = {name: value for name, value in found.items() if inspect.isclass(value)}
    return {name: value for name, value in found.items() if not any(value is one for one in before)}


def kind_of(value: object) -> str:
    if not inspect.isclass(value):
        return "Functions" if callable(value) else "Values"
    if issubclass(value, Warning):
        return "Warnings"
    return "Errors" if issubclass(value, Exception) else "Classes"


def reference(module: str) -> str:
    """The section of a module, in MyST."""
    lines = [f"## `{module}`", f"```{{py:module}} {module}\n```"]
    for kind in DIRECTIVES:
        names = [name for name, value in public_names(module).items() if kind_of(value) == kind]
        lines += [f"### {kind} of `{module}`"] if names else []
        lines += [_entry(f"{module}.{name}", kind) for name in names]
    return "\n\n".join(lines) + "\n"


def _entry(name: str, kind: str) -> str:
    directive, options = DIRECTIVES[kind]
    indented = "\n".join(f"   {line}" for line in options.splitlines())
    return f"```{{eval-rst}}\n.. {directive}:: {name}\n{indented}\n```"


def with_fields(lines: list[str], parameters: Container[str]) -> list[str]:
    """A docstring whose lines `name: what it is` are fields, as Sphinx draws them in a list.

    >>> with_fields(["Do it.", "", "rows: how many,", "or all"], ["rows"])
    ['Do it.', '', '', ':param rows: how many,', '    or all']
    """
    found: list[str] = []
    in_field = False
    for line in lines:
        name, colon, rest = line.partition(": ")
        if begins := bool(colon) and name in parameters:
            found += [*([] if in_field else [""]), f":param {name}: {rest}"]
        else:
            in_field = in_field and bool(line.strip())
            found.append(f"    {line}" if in_field else line)
        in_field = in_field or begins
    return found


def fields_of_docstring(_: Any, kind: str, __: str, value: Any, ___: Any, lines: list[str]) -> None:
    described = value.__init__ if kind == "class" else value
    try:
        parameters = inspect.signature(described).parameters
    except (TypeError, ValueError):
        return
    lines[:] = with_fields(lines, parameters)


def add_reference(_: Any, name: str, content: list[str]) -> None:
    if name == PAGE:
        content[0] += "\n" + "\n".join(map(reference, MODULES))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", add_reference)
    app.connect("autodoc-process-docstring", fields_of_docstring)
    return {"parallel_read_safe": True}
