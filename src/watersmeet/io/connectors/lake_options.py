"""What the tables of a lake are told by options: sizes, counts, times, and where their store is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.io.store_errors import gist_of
from watersmeet.model.time import parse_interval

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB)", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE = "↳"  # Delta's library writes what led to an error below it, each cause on a line of its own
_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
WAYS = "fs.access_key, fs.secret_key, fs.region and fs.endpoint_override say how a store is entered"
# What a store asks for to let somebody in, by the end of an option's name.
SECRETS = ("secret_key", "access_key", "session_token", "password", "account_key", "sas_token", "token", "credential")


def needed(owner: str, options: Mapping[str, str], name: str, such_as: str) -> str:
    value = options.get(name, "").strip()
    if not value:
        raise OptionError(f"{owner!r} does not say {name}", hint=f"add {name} = '{such_as}' to its WITH (…)")
    if "\0" in value:
        raise OptionError(f"option {name} of {owner!r} has a NUL character in it", option=name)
    return value


def one_of(owner: str, options: Mapping[str, str], name: str, known: Collection[str], usual: str) -> str:
    value = options.get(name, usual).strip().lower()
    if value not in known:
        may_be = " or ".join(f"'{one}'" for one in known)
        raise OptionError(f"{owner!r} has {name} = {options[name]!r}; it may be {may_be}", option=name)
    return value


def size_in_bytes(owner: str, options: Mapping[str, str], name: str) -> int | None:
    """A size such as '128 MB'; None if none is given."""
    written = options.get(name)
    if written is None:
        return None
    found = _SIZE.fullmatch(written.strip())
    size = 0 if found is None else int(float(found[1]) * _BYTES[found[2].upper()])
    if size <= 0:
        raise OptionError(f"{owner!r} has {name} = {written!r}; it must be a size such as '128 MB'", option=name)
    return size


def whole_number(owner: str, options: Mapping[str, str], name: str) -> int | None:
    written = options.get(name)
    if written is None:
        return None
    if not written.strip().isdecimal() or int(written) < 1:
        raise OptionError(f"{owner!r} has {name} = {written!r}; it must be a whole number from 1 on", option=name)
    return int(written)


def interval_s(owner: str, options: Mapping[str, str], name: str) -> float | None:
    """An interval such as '30 seconds'; None if none is given."""
    written = options.get(name)
    if written is None:
        return None
    try:
        length_us = parse_interval(written)
    except ValueError as error:
        raise OptionError(f"{owner!r} has {name} = {written!r}: {error}", option=name) from None
    if length_us <= 0:
        raise OptionError(f"{owner!r} has {name} = {written!r}; it must be longer than nothing", option=name)
    return length_us / 1_000_000


def column_list(options: Mapping[str, str], name: str) -> list[str]:
    return [one.strip() for one in options.get(name, "").split(",") if one.strip()]


def full_path(path: str) -> str:
    """A path of this machine in full, an address of a store as it is."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def is_secret(option: str) -> bool:
    return option.lower().replace("-", "_").endswith(SECRETS)


@contextmanager
def in_a_sentence(
    kind: type[WatersmeetError],
    what: str,
    errors: tuple[type[BaseException], ...],
    options: Mapping[str, str],
    hint: str | None = None,
) -> Iterator[None]:
    """Whatever goes wrong at the other end becomes one sentence, without what is secret."""
    try:
        yield
    except WatersmeetError:
        raise
    except (*errors, pa.ArrowException, OSError) as error:
        hint = hint or (None if gist_of(error) is None else WAYS)
        raise kind(f"{what}: {first_line(error, options)}", hint=hint) from None


def first_line(error: BaseException, options: Mapping[str, str]) -> str:
    """The first words of somebody else's error and what led to it, or what a store means by them; never a password.

    >>> first_line(OSError("Kernel error\\n  ↳ Generic S3 error\\n   ↳ URL scheme is not allowed"), {})
    'Kernel error: URL scheme is not allowed'
    """
    gist = gist_of(error)
    if gist is not None:
        return gist
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).rstrip(".")
    if len(lines) > 1 and lines[-1].startswith(_CAUSE):
        text = f"{text}: {lines[-1].removeprefix(_CAUSE).strip()}"
    for option, value in options.items():
        if is_secret(option) and value:
            text = text.replace(value, "…")
    return text if len(text) <= 300 else f"{text[:300]}…"
