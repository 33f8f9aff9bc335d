"""Formats of times as text, `%d.%m.%Y %H:%M`: which words they are made of, and the pattern that such text has."""

from __future__ import annotations

import re
from functools import cache

from watersmeet.dataclass import dataclass

ISO = "iso"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# What each word stands for, as a pattern. Digits may lack their leading zero, as in Python; a second has up to nine
# digits behind the point.
_WORDS = {
    "Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "d": r"\d{1,2}", "e": r" ?\d{1,2}", "j": r"\d{1,3}",
    "H": r"\d{1,2}", "I": r"\d{1,2}", "M": r"\d{1,2}", "S": r"\d{1,2}", "f": r"\d{1,9}",
    "z": r"[zZ]|[+-]\d{2}(?::?\d{2})?", "p": r"(?i:am|pm)",
    "b": f"(?i:{'|'.join(MONTHS)})", "B": f"(?i:{'|'.join(MONTH_NAMES)})",
    "a": f"(?i:{'|'.join(day[:3] for day in _WEEKDAYS)})", "A": f"(?i:{'|'.join(_WEEKDAYS)})",
}  # fmt: skip
_SAME_AS = {"e": "d", "B": "b", "A": "a"}
_SHORT = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_FIXED = {"Y": r"\d{4}", "m": r"\d{2}", "d": r"\d{2}", "H": r"\d{2}", "M": r"\d{2}", "S": r"\d{2}", "f": r"\d{1,6}"}
_FIXED["z"] = r"(?:Z|[+-]\d{2}:?\d{2})"
_ISO_SHAPE = re.compile(r"%Y-%m-%d(?:[ T]%H:%M(?::%S(?:\.%f)?)?(?:%z)?)?")
_ISO_PATTERN = (
    r"(?P<Y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})"
    r"(?:[T ](?P<H>\d{2})(?::(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?)?)?"
    r" ?(?P<z>[zZ]|[+-]\d{2}(?::?\d{2})?)?"
)
# How others write the same, the longest first.
_JAVA = {
    "yyyy": "%Y", "uuuu": "%Y", "YYYY": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%m", "dd": "%d",
    "DD": "%d", "d": "%d", "HH24": "%H", "HH": "%H", "H": "%H", "hh": "%I", "h": "%I", "MI": "%M", "mm": "%M",
    "ss": "%S", "SS": "%S", "a": "%p", "XXX": "%z", "XX": "%z", "X": "%z", "xxx": "%z", "Z": "%z", "'T'": "T",
}  # fmt: skip
_JAVA_WORD = re.compile(
    r"(?<=\.)(?:S+|f+|F+\d?)|" + "|".join(sorted(map(re.escape, _JAVA), key=lambda word: -len(word)))
)
_KNOWN = "%Y %m %d %H %M %S %f (digits of a second) %z (offset) %y %b %B %j %I %p %a %A"


@dataclass(frozen=True)
class TimeFormat:
    """A format, checked. `pattern` has a group for each part, named by its word; `fixed` is the pattern of such text
    that Arrow reads by itself, None if it is no form of ISO 8601."""

    written: str
    pattern: str
    parts: frozenset[str]
    fixed: str | None

    @property
    def has_zone(self) -> bool:
        return "z" in self.parts


@cache
def time_format(written: str) -> TimeFormat:
    """The format that was written. Raises ValueError with a sentence that says what would do.

    >>> time_format("%d.%m.%Y %H:%M").pattern
    '(?P<d>\\\\d{1,2})\\\\.(?P<m>\\\\d{1,2})\\\\.(?P<Y>\\\\d{4})\\\\ (?P<H>\\\\d{1,2}):(?P<M>\\\\d{1,2})'
    """
    if written.strip().lower() == ISO:
        return TimeFormat(ISO, _ISO_PATTERN, frozenset("YmdHMSfz"), None)
    if "%" not in written:
        raise ValueError(_without_percent(written))
    spelled = re.sub(r"%[FTRD]", lambda found: _SHORT[found[0]], written)
    pattern, parts = _pattern(spelled, written)
    _check_parts(parts, written)
    fixed = None
    if _ISO_SHAPE.fullmatch(spelled):
        fixed = re.sub(r"%(\w)", lambda found: _FIXED[found[1]], spelled.replace(".", r"\."))
    return TimeFormat(written, pattern, frozenset(parts), fixed)


def _pattern(spelled: str, written: str) -> tuple[str, list[str]]:
    made, parts, position = "", list[str](), 0
    while position < len(spelled):
        mark = spelled[position]
        if mark != "%":
            made += re.escape(mark)
            position += 1
            continue
        word = spelled[position + 1 : position + 2]
        position += 2
        if word == "%":
            made += "%"
            continue
        if word not in _WORDS:
            raise ValueError(f"{written!r} has %{word}, which is not known; {_instead(word)}")
        part = _SAME_AS.get(word, word)
        if part in parts:
            raise ValueError(f"{written!r} has %{word} twice")
        parts.append(part)
        made += f"(?P<{part}>{_WORDS[word]})"
    return made, parts


def _instead(word: str) -> str:
    if word == "s":
        return "seconds since 1970 are said by time_unit = 's'"
    if word == "Z":
        return "offsets such as +02:00 or Z are %z, and the zone of text without one is said by time_zone"
    return f"the words are {_KNOWN}"


def _check_parts(parts: list[str], written: str) -> None:
    has = frozenset(parts)
    whole = "write for example '%Y-%m-%d %H:%M:%S'"
    if not (has & {"Y", "y"}) or not ({"j"} <= has or ({"d"} <= has and has & {"m", "b"})):
        raise ValueError(f"{written!r} does not say which day it is: year, month and day are needed; {whole}")
    for one, other in (("Y", "y"), ("m", "b"), ("j", "d"), ("j", "m"), ("j", "b"), ("H", "I")):
        if {one, other} <= has:
            raise ValueError(f"{written!r} has %{one} and %{other}, which say the same")
    if ("I" in has) != ("p" in has):
        raise ValueError(f"{written!r} has only one of %I and %p: hours of half a day need AM or PM")
    for finer, coarser in (("M", "HI"), ("S", "M"), ("f", "S")):
        if finer in has and not has & set(coarser):
            raise ValueError(f"{written!r} has %{finer} without %{coarser[0]}; {whole}")


def _without_percent(written: str) -> str:
    meant = _JAVA_WORD.sub(lambda found: _JAVA.get(found[0], "%f"), written)
    wrong = f"{written!r} has no % in it: formats are written as in Python's strptime"
    if meant == written or not re.search("%[Yy]", meant):
        return f"{wrong}, '%d.%m.%Y %H:%M:%S', or '{ISO}' for any form of ISO 8601"
    if _ISO_SHAPE.fullmatch(meant):
        return f"{wrong}, and this is a form of ISO 8601: '{ISO}' reads it, with a fraction of a second and without"
    return f"{wrong}, here {meant!r}"


# Spark's and Java's letters, each run of them by itself.
_JAVA_RUNS = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m",
    "dd": "%d", "d": "%-d", "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M",
    "ss": "%S", "s": "%-S", "SSS": "%g", "SSSSSS": "%f", "a": "%p", "EEEE": "%A", "EEE": "%a", "EE": "%a", "E": "%a",
}  # fmt: skip
_JAVA_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")


# PostgreSQL's patterns. Numbers are the same in any case; names are written as the pattern is.
_POSTGRES_NUMBERS = {
    "YYYY": "Y", "IYYY": "G", "YY": "y", "MM": "m", "DDD": "j", "DD": "d", "ID": "u", "IW": "V", "HH24": "H",
    "HH12": "I", "HH": "I", "MI": "M", "SS": "S", "MS": "g", "US": "f", "FF3": "g", "FF6": "f",
}  # fmt: skip
_POSTGRES_NAMES = {"Mon": "b", "FMMonth": "B", "Dy": "a", "FMDay": "A", "AM": "p", "PM": "p"}
_POSTGRES_TOKEN = re.compile(
    r'"[^"]*"|(?:FM)?(?:HH24|HH12|YYYY|IYYY|MONTH|DDD|DAY|MON|FF[36]|AM|PM|MM|MI|MS|SS|US|DD|DY|ID|IW|HH|YY)|.',
    re.IGNORECASE | re.DOTALL,
)
_POSTGRES_KNOWN = (
    "the patterns are YYYY YY MM Mon FMMonth DD DDD Dy FMDay ID IW HH24 HH12 MI SS MS US AM, with FM before those "
    "whose zeros are left out; or write STRFTIME(ts, '%Y-%m-%d %H:%M:%S')"
)


def from_postgres(written: str, *, in_any_case: bool = False) -> str:
    """A format in the patterns of PostgreSQL, `YYYY-MM-DD HH24:MI:SS`, in ours. Raises ValueError for those without a
    twin. in_any_case: whether names are, too, as where text is read.

    >>> from_postgres("FMDD Mon YYYY HH24:MI")
    '%-d %b %Y %H:%M'
    """
    return "".join(_of_postgres(text, written, in_any_case) for text in _POSTGRES_TOKEN.findall(written))


def _of_postgres(text: str, written: str, in_any_case: bool) -> str:
    bare = text.upper().removeprefix("FM")
    if bare in _POSTGRES_NUMBERS:
        return f"%{'-' if text.upper().startswith('FM') and bare not in _WITH_ZEROS else ''}{_POSTGRES_NUMBERS[bare]}"
    for name, word in _POSTGRES_NAMES.items():
        if text == name or (in_any_case and bare == name.upper().removeprefix("FM")):
            return f"%{word}"
    if len(text) > 1 and text.startswith('"'):
        return text[1:-1].replace("%", "%%")
    if text.isalpha() and text != "T":  # which stands between a date and its time
        raise ValueError(f"{written!r} has {text!r}, which is not known; {_POSTGRES_KNOWN}")
    return text.replace("%", "%%")


_WITH_ZEROS = frozenset(("YYYY", "IYYY", "YY", "ID", "MS", "US", "FF3", "FF6"))


def from_letters(written: str) -> str:
    """A format in the letters of Java or PostgreSQL, in ours. The two share none that differ, but for HH24
    and HH12; names are taken in any case.

    >>> from_letters("yyyy-MM-dd HH:mm"), from_letters("YYYY-MM-DD HH24:MI")
    ('%Y-%m-%d %H:%M', '%Y-%m-%d %H:%M')
    """
    if re.search("HH24|HH12", written, re.IGNORECASE):
        return from_postgres(written, in_any_case=True)
    try:
        return from_java(written)
    except ValueError as of_java:
        try:
            return from_postgres(written, in_any_case=True)
        except ValueError:
            raise of_java from None


def from_java(written: str) -> str:
    """A format in the letters of Java, `yyyy-MM-dd HH:mm:ss`, in ours. Raises ValueError for letters without a twin.

    >>> from_java("yyyy-MM-dd'T'HH:mm")
    '%Y-%m-%dT%H:%M'
    """
    made = ""
    for token in _JAVA_TOKEN.finditer(written):
        text = token[0]
        if text.startswith("'") and len(text) > 1:
            made += (text[1:-1].replace("''", "'") or "'").replace("%", "%%")
        elif text[0].isalpha():
            if text not in _JAVA_RUNS:
                raise ValueError(f"{written!r} has {text!r}, which is not known; write it as '%Y-%m-%d %H:%M:%S'")
            made += _JAVA_RUNS[text]
        else:
            made += text.replace("%", "%%")
    return made
