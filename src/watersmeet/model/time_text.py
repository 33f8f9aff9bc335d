"""Times that are text, read by a format: all rows at once, each checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.model.time import Times
from watersmeet.model.time_format import ISO, MONTHS, TimeFormat, time_format

Mask = npt.NDArray[np.bool_]
# What text gives: microseconds, which are finer, which are wrong, and why one of these is.
Text = tuple[Times, Mask, Mask, Callable[[int], str]]
SKIPPED = "does not exist in"
_DAY_US = 86_400_000_000
_PLAIN = pa.timestamp("us")
_INSTANT = pa.timestamp("us", tz="UTC")
_OFFSET = re.compile(r"(?:[zZ]|:\S*[+-][\d:]+)$")
_YEAR_1_US = -62_135_596_800_000_000
# Years of two digits up to this one are of the third millennium, as POSIX has it.
_PIVOT = 68
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y",
          "%d %B %Y", "%d/%b/%Y", "%a, %d %b %Y")  # fmt: skip
_TIMES = ("", "%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H%M%S", "%I:%M:%S %p", "%I:%M %p")
_BETWEEN = (" ", "T", "", ":", ", ")
_ZONES = ("", "%z", " %z")


def read_text(text: pa.Array, form: str, zone: str) -> Text:
    """The instants of text in a format; in a zone, unless it has an offset of its own."""
    format_ = time_format(form)
    none = np.zeros(len(text), np.bool_)
    quick = _by_arrow(text, format_)
    if quick is not None:
        read, finer, wrong = quick[0], none, none
        local = none if quick[1] else ~none
    else:
        read, finer, wrong, offset = _by_pattern(text, format_)
        local = ~none if offset is None else offset == _NO_OFFSET
        read = read if offset is None else read - np.where(local, 0, offset)
    skipped = none
    if zone != "UTC" and bool(local.any()):
        read, skipped = _moved(read, local & ~wrong, zone)

    def why(index: int) -> str:
        if skipped[index]:
            return f"{SKIPPED} {zone}: clocks skip it there"
        return f"is not written as {form!r}" if form != ISO else "is not a time of ISO 8601, 2026-01-31 12:00:00"

    return read, finer, wrong | skipped, why


def _by_arrow(text: pa.Array, format_: TimeFormat) -> tuple[Times, bool] | None:
    """What Arrow's own parser gives, which knows ISO 8601 and is fast, and whether the text has offsets, which are
    taken off; None where it would take more, or other, than was said."""
    if format_.fixed is not None:
        if not pc.all(pc.fill_null(pc.match_substring_regex(text, pattern=f"^{format_.fixed}$"), True)).as_py():
            return None
    elif format_.written != ISO:
        return None
    has_offsets = format_.has_zone
    if format_.written == ISO:  # where the first row may have one or not; if others differ, Arrow takes none of them
        first = text.drop_null()[0].as_py()
        has_offsets = _OFFSET.search(first) is not None
    try:
        read = pc.cast(text, _INSTANT if has_offsets else _PLAIN)
    except pa.ArrowInvalid:
        return None
    times: Times = pc.fill_null(pc.cast(read, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return (times, has_offsets) if times.min(initial=0) >= _YEAR_1_US else None


_NO_OFFSET = np.iinfo(np.int64).min


def _by_pattern(text: pa.Array, format_: TimeFormat) -> tuple[Times, Mask, Mask, Times | None]:
    """Microseconds as clocks show them, which rows are finer, which are no such text, and offsets from UTC if any."""
    found = pc.extract_regex(text, pattern=f"^{format_.pattern}$")
    right: Mask = found.is_valid().to_numpy(zero_copy_only=False)
    parts = {field.name: pc.fill_null(pc.struct_field(found, field.name), "") for field in found.type}

    def number(name: str, default: int) -> Times:
        if name not in parts:
            return np.full(len(text), default, np.int64)
        digits = pc.utf8_ltrim_whitespace(parts[name])
        given = pc.if_else(pc.equal(digits, ""), str(default), digits)
        values: Times = pc.cast(given, pa.int64()).to_numpy(zero_copy_only=False)
        return values

    days, right_day = _days(number, parts)
    hours, right_hour = _hours(number, parts)
    minutes, seconds, nanoseconds = number("M", 0), number("S", 0), _nanoseconds(parts, len(text))
    right = right & right_day & right_hour & (minutes < 60) & (seconds < 60)
    of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + nanoseconds // 1_000
    offset = None
    if "z" in parts:
        offset, right_offset = _offsets(parts["z"])
        right = right & right_offset
    return days * _DAY_US + of_day, right & (nanoseconds % 1_000 != 0), ~right, offset


def _days(number: Callable[[str, int], Times], parts: dict[str, pa.Array]) -> tuple[Times, Mask]:
    """Days since 1970, and whether there is such a day."""
    years = number("Y", 1970)
    if "y" in parts:
        short = number("y", 70)
        years = short + np.where(short <= _PIVOT, 2000, 1900)
    if "j" in parts:
        of_year = number("j", 1)
        first = (years - 1970).astype("datetime64[Y]")
        length = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
        days = first.astype("datetime64[D]").astype(np.int64) + of_year - 1
        return days, (of_year >= 1) & (of_year <= length) & (years >= 1)
    months = _months(parts["b"]) if "b" in parts else number("m", 1)
    of_month = number("d", 1)
    right = (months >= 1) & (months <= 12) & (years >= 1)
    start = ((years - 1970) * 12 + np.where(right, months, 1) - 1).astype("datetime64[M]")
    length = ((start + 1).astype("datetime64[D]") - start.astype("datetime64[D]")).astype(np.int64)
    days = start.astype("datetime64[D]").astype(np.int64) + of_month - 1
    return days, right & (of_month >= 1) & (of_month <= length)


def _months(names: pa.Array) -> Times:
    short = pc.utf8_slice_codeunits(pc.utf8_lower(names), 0, 3)
    found = pc.index_in(short, value_set=pa.array(MONTHS))
    months: Times = pc.cast(pc.fill_null(found, 0), pa.int64()).to_numpy(zero_copy_only=False)
    return months + 1


def _hours(number: Callable[[str, int], Times], parts: dict[str, pa.Array]) -> tuple[Times, Mask]:
    if "I" not in parts:
        hours = number("H", 0)
        return hours, hours < 24
    half = number("I", 12)
    after_noon: Mask = pc.equal(pc.utf8_lower(parts["p"]), "pm").to_numpy(zero_copy_only=False)
    return half % 12 + np.where(after_noon, 12, 0), (half >= 1) & (half <= 12)


def _nanoseconds(parts: dict[str, pa.Array], rows: int) -> Times:
    if "f" not in parts:
        return np.zeros(rows, np.int64)
    nine = pc.utf8_rpad(parts["f"], 9, "0")
    nanoseconds: Times = pc.cast(nine, pa.int64()).to_numpy(zero_copy_only=False)
    return nanoseconds


def _offsets(text: pa.Array) -> tuple[Times, Mask]:
    """Microseconds ahead of UTC; the smallest number where there is no offset."""
    bare = pc.replace_substring(text, ":", "")
    digits = pc.utf8_rpad(pc.utf8_slice_codeunits(bare, 1, 5), 4, "0")
    values = pc.cast(digits, pa.int64()).to_numpy(zero_copy_only=False)
    hours, minutes = values // 100, values % 100
    behind = pc.starts_with(bare, "-").to_numpy(zero_copy_only=False)
    offset = (hours * 60 + minutes) * 60_000_000 * np.where(behind, -1, 1)
    missing = pc.equal(bare, "").to_numpy(zero_copy_only=False)
    return np.where(missing, _NO_OFFSET, offset), (hours < 24) & (minutes < 60)


def _moved(read: Times, local: Mask, zone: str) -> tuple[Times, Mask]:
    """Readings of a zone's clocks as instants, the first where clocks show one twice, and which are skipped."""
    shown = pa.array(np.where(local, read, 0), pa.int64()).cast(_PLAIN)
    instants = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="earliest")
    back = pc.local_timestamp(instants)
    skipped: Mask = pc.not_equal(back, shown).to_numpy(zero_copy_only=False) & local
    moved: Times = pc.cast(pc.cast(instants, _PLAIN), pa.int64()).to_numpy(zero_copy_only=False)
    return np.where(local, moved, read), skipped


def formats_of(texts: pa.Array) -> Iterator[str]:
    """The formats, among those that people use, in which all of some texts may be written; for hints only. That of ISO
    8601 comes first, as it reads seconds with a fraction and without."""
    first = texts.slice(0, 1)
    for form in (ISO, *_forms(first[0].as_py() or "")):
        if reads(form, first) and reads(form, texts):
            yield form


def _forms(text: str) -> Iterator[str]:
    """Those that begin with a date as a text does."""
    dates = [date for date in _DATES if re.match(time_format(date).pattern, text)]
    for date, zone, time in product(dates, _ZONES, _TIMES):
        for between in _BETWEEN if time else ("",):
            yield f"{date}{between}{time}{zone}"


def reads(form: str, texts: pa.Array) -> bool:
    """Whether all of some texts are written so."""
    alike = pc.all(pc.match_substring_regex(texts, pattern=f"^{time_format(form).pattern}$")).as_py()
    return bool(alike) and not read_text(texts, form, "UTC")[2].any()
