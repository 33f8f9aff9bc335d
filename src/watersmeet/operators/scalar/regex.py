"""Regular expressions, by RE2, which Arrow and DuckDB both use."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.scalar.lists import places_of, spread
from watersmeet.operators.scalar.values import Function, Value, as_array, as_given, as_text, per_constant, rows_of
from watersmeet.plan.expressions import Call

# c: as written; i: in any case; s: a dot is any character, also a newline; m, n, p: lines are apart.
_FLAGS = {"c": "", "i": "i", "s": "s", "m": "m", "n": "m", "p": "m"}
_MOST_GROUPS = 9
_SEPARATOR, _END = "\U0010ffff", "\U0010fffe"  # which Unicode says are no characters


def _constants(function: Function, *positions: int) -> Function:
    """Patterns and options are constants to Arrow; a column of them is grouped by its values."""
    for position in positions:
        function = per_constant(position, function)
    return function


def _pattern(args: Sequence[Value], options_at: int, *, extra: str = "") -> tuple[str, str] | None:
    """The pattern with its flags, and those of the options in `extra`; None if either is NULL."""
    pattern = args[1].as_py()
    options = args[options_at].as_py() if len(args) > options_at else ""
    if pattern is None or options is None:
        return None
    for option in options:
        if option not in _FLAGS and option not in extra:
            known = ", ".join(repr(one) for one in (*_FLAGS, *extra))
            raise pa.ArrowInvalid(f"there is no option {option!r}; the options are {known}")
    flags = "".join(dict.fromkeys(_FLAGS[option] for option in options if option in _FLAGS))
    return (f"(?{flags})(?:{pattern})" if flags else pattern), options


def _searching(result: pa.DataType, search: Callable[[Value, str], Value]) -> Function:
    def apply(args: Sequence[Value], call: Call) -> Value:
        found = _pattern(args, 2)
        return pa.scalar(None, result) if found is None else _told(search, as_text(args[0]), found[0])

    return _constants(apply, 1, 2)


def _told(search: Callable[..., Value], text: Value, pattern: str, *more: str) -> Value:
    try:
        return search(text, pattern, *more)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise pa.ArrowInvalid(f"{pattern!r} is not a regular expression: {reason}") from None


def extract(args: Sequence[Value], call: Call) -> Value:
    """The first match, or one of its groups; empty where nothing matches."""
    found, group = _pattern(args, 3), args[2].as_py() if len(args) > 2 else 0
    if found is None or group is None:
        return pa.scalar(None, pa.string())
    if not 0 <= group <= _MOST_GROUPS:
        raise pa.ArrowInvalid(f"groups are numbered from 0 to {_MOST_GROUPS}, not {group}")
    text, pattern = as_text(args[0]), found[0]
    there = _told(pc.match_substring_regex, text, pattern)
    if group and not _has_group(pattern, group):
        return pc.if_else(pc.is_null(text), text, pa.scalar(""))
    named = with_one_group(pattern, group)
    if named is not None:
        found_there = pc.struct_field(pc.extract_regex(text, named), [0])
        return pc.if_else(there, pc.fill_null(found_there, ""), pa.scalar(""))
    # Slower, but for any pattern: all is replaced by the match, and what stands before it is as short as can be.
    inner = f"({pattern})" if group == 0 else f"(?:{pattern})"
    whole = rf"^(?s:.*?){inner}(?s:.*)$"
    return pc.if_else(there, pc.replace_substring_regex(text, whole, rf"\{max(group, 1)}"), pa.scalar(""))


def with_one_group(pattern: str, group: int) -> str | None:
    """The pattern with a name for one group, 0 being all of it, and without the others, as Arrow takes it; None
    if that is not easily said.

    >>> with_one_group("(a)[(](b)", 2)
    '(?:a)[(](?P<m>b)'
    """
    # Groups that have names, and literal text, whose parentheses are none.
    if "(?P<" in pattern or "(?<" in pattern or "\\Q" in pattern:
        return None
    made, seen, position, within = "", 0, 0, False
    while position < len(pattern):
        mark = pattern[position]
        if mark == "\\":
            made, position = made + pattern[position : position + 2], position + 2
            continue
        if within:
            within = mark != "]"
        elif mark == "[":
            # A bracket that stands first in a class is one of its characters; [: :] has a name of its own.
            first = re.match(r"\[\^?\]?(?:\[:\^?\w+:\])*", pattern[position:])
            assert first is not None
            made, position, within = made + first[0], position + first.end(), True
            continue
        elif mark == "(" and pattern[position + 1 : position + 2] != "?":
            seen += 1
            mark = "(?P<m>" if seen == group else "(?:"
        made, position = made + mark, position + 1
    if "[:" in pattern and re.search(r"[^\[]\[:", pattern):
        return None
    return f"(?P<m>{made})" if group == 0 else made


def _has_group(pattern: str, group: int) -> bool:
    try:
        pc.replace_substring_regex(pa.scalar(""), pattern, rf"\{group}")
    except pa.ArrowInvalid:
        return False
    return True


def match(args: Sequence[Value], call: Call) -> Value:
    """The groups of the first match, or all of it where there are none; NULL where nothing matches. A group that took
    no part is empty."""
    found = _pattern(args, 2)
    if found is None:
        return pa.scalar(None, call.type)
    text, groups = as_text(args[0]), 0
    there = _told(pc.match_substring_regex, text, found[0])
    while groups < _MOST_GROUPS and _has_group(found[0], groups + 1):
        groups += 1
    plain = Call("regexp_extract", (), pa.string())
    wanted = range(1, groups + 1) if groups else range(1)
    parts = [extract([text, pa.scalar(found[0]), pa.scalar(one)], plain) for one in wanted]
    rows = rows_of([text])
    columns = [as_array(part, rows) for part in parts]
    # Row by row: the values of all columns, in the order of the groups.
    by_row = pa.concat_arrays(columns).take(
        pa.array(np.arange(rows * len(columns)).reshape(len(columns), rows).T.ravel())
    )
    made = pa.FixedSizeListArray.from_arrays(by_row, len(columns)).cast(call.type)
    matched = pc.fill_null(as_array(there, rows), False)
    return as_given([text], pc.if_else(matched, made, pa.scalar(None, call.type)))


def extract_all(args: Sequence[Value], call: Call) -> Value:
    """Every match, or one of its groups. Matches are marked in the text, which is then cut at the marks."""
    found, group = _pattern(args, 3), args[2].as_py() if len(args) > 2 else 0
    if found is None or group is None:
        return pa.scalar(None, call.type)
    _told(pc.match_substring_regex, pa.scalar(""), found[0])
    if not 0 <= group <= _MOST_GROUPS or (group and not _has_group(found[0], group)):
        raise pa.ArrowInvalid(f"{found[0]!r} has no group {group}")
    if _told(_full, pa.scalar(""), found[0]).as_py():
        raise pa.ArrowInvalid(f"{found[0]!r} matches an empty text, which is found everywhere")
    rows = rows_of(args[:1])
    text = as_array(as_text(args[0]), rows)
    marked = pc.replace_substring_regex(text, found[0], rf"{_SEPARATOR}\{group}{_END}")
    starts, sizes, pieces = spread(pc.split_pattern(marked, _SEPARATOR), rows)
    # What stands before the first mark is none of them.
    sizes = np.maximum(sizes - 1, 0)
    matches = pieces.take(pa.array(places_of(starts + 1, sizes)))
    cut = pc.list_element(pc.split_pattern(matches, _END, max_splits=1), 0)
    made = pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), cut)
    return as_given(args[:1], pc.if_else(pc.is_null(text), pa.scalar(None, call.type), made.cast(call.type)))


def escape(args: Sequence[Value], call: Call) -> Value:
    """As a pattern that matches the text itself."""
    return pc.replace_substring_regex(as_text(args[0]), r"([^A-Za-z0-9_\x80-\x{10ffff}])", r"\\\1")


def replace(args: Sequence[Value], call: Call) -> Value:
    r"""The first match replaced, or with the option 'g' all of them; \1 is what the first group holds."""
    found, by = _pattern(args, 3, extra="g"), args[2].as_py()
    if found is None or by is None:
        return pa.scalar(None, pa.string())
    pattern, options = found
    _told(pc.match_substring_regex, pa.scalar(""), pattern)
    try:
        most = -1 if "g" in options else 1
        return pc.replace_substring_regex(as_text(args[0]), pattern, by, max_replacements=most)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{by!r} cannot take the place of {pattern!r}: {error}") from None


def split(args: Sequence[Value], call: Call) -> Value:
    pattern = args[1].as_py()
    if pattern is None:
        return pa.scalar(None, call.type)
    if _told(_full, pa.scalar(""), pattern).as_py():
        raise pa.ArrowInvalid(f"{pattern!r} matches an empty text, at which nothing can be split")
    # Arrow's own kernel looks for ever where a pattern such as a word boundary matches nothing at all.
    return pc.split_pattern(pc.replace_substring_regex(as_text(args[0]), pattern, _SEPARATOR), _SEPARATOR)


def _full(text: Value, pattern: str) -> Value:
    return pc.match_substring_regex(text, rf"\A(?:{pattern})\z")


FUNCTIONS: dict[str, Function] = {
    "regexp_matches": _searching(pa.bool_(), pc.match_substring_regex),
    "regexp_full_match": _searching(pa.bool_(), _full),
    "regexp_count": _searching(pa.int64(), pc.count_substring_regex),
    "regexp_extract": _constants(extract, 1, 2, 3),
    "regexp_replace": _constants(replace, 1, 2, 3),
    "string_split_regex": _constants(split, 1),
    "regexp_match": _constants(match, 1, 2),
    "regexp_extract_all": _constants(extract_all, 1, 2, 3),
    "regexp_escape": escape,
}
