"""Below the checkpoint of a script: a folder for each of its queries, by the query's name."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import RunError


def query_folders(queries: Sequence[str]) -> list[str]:
    """The folders of several queries; no two have the same."""
    names: dict[str, str] = {}
    for query in queries:
        name = folder_name(query)
        if name in names:
            raise RunError(
                f"the queries {names[name]!r} and {query!r} would share the folder {name} of the checkpoint",
                hint="give one of them another name; a bare SELECT is called 'query 2' by its place",
            )
        names[name] = query
    return list(names)


def folder_name(query: str) -> str:
    """The folder of a query, in the checkpoint and nowhere else.

    >>> [folder_name(name) for name in ("query 1", "x/../../y", "..", "totals")]
    ['query_1', 'x%2F..%2F..%2Fy', '%2E.', 'totals']
    """
    name = query.replace(" ", "_").replace("/", "%2F").replace("\\", "%5C")
    return f"%2E{name[1:]}" if name.startswith(".") else name
