"""Reaching a PostgreSQL server, and what it says, without a password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from watersmeet.errors import SinkError, SourceError

_MOST_S_TO_CONNECT = 15


def dsn_of(name: str, options: Mapping[str, str], error: type[SinkError] | type[SourceError]) -> str:
    given = [options[one] for one in ("dsn", "url") if options.get(one)]
    if len(given) != 1:
        says = "both dsn and url" if given else "neither dsn nor url"
        raise error(
            f"{name!r} says {says}, of which one names the PostgreSQL server",
            hint="write dsn = 'host=… dbname=… user=… password=${NAME}', or url = 'postgresql://…'",
        )
    try:
        conninfo_to_dict(given[0])
    except psycopg.Error:
        # What the library says of it would quote a part, which may be the password.
        raise error(
            f"{name!r} has an address that PostgreSQL cannot read",
            hint="write dsn = 'host=… dbname=… user=… password=${NAME}', or url = 'postgresql://user@host/dbname'",
        ) from None
    return given[0]


def connected(dsn: str) -> psycopg.Connection[Any]:
    parts = conninfo_to_dict(dsn)
    connection = psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=int(parts.get("connect_timeout") or _MOST_S_TO_CONNECT),
        application_name=str(parts.get("application_name") or "watersmeet"),
    )
    # The text of times and bytes is that of COPY, which goes by settings of the session.
    connection.execute("SET client_encoding = 'UTF8'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET DateStyle = 'ISO, YMD'")
    connection.execute("SET bytea_output = 'hex'")
    return connection


def place_of(dsn: str) -> str:
    """The server and the database, for people."""
    parts = conninfo_to_dict(dsn)
    host = parts.get("host") or parts.get("hostaddr") or "this machine"
    port = f":{parts['port']}" if parts.get("port") else ""
    database = f"/{parts['dbname']}" if parts.get("dbname") else ""
    return f"PostgreSQL at {host}{port}{database}"


def said_by(error: psycopg.Error, dsn: str) -> str:
    text = (error.diag.message_primary or str(error)).strip() or type(error).__name__
    # Of several addresses that were tried, or lines of context, the last is what went wrong; below it the library may
    # ask whether the server runs.
    lines = [one.strip() for one in text.splitlines() if one.strip() and not one.strip().endswith("?")]
    line = lines[-1] if lines else text
    password = conninfo_to_dict(dsn).get("password")
    return line.replace(str(password), "…") if password else line
