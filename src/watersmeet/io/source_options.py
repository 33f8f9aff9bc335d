"""Which options an input may have, by its format and the host that reads it; any other is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from watersmeet.errors import OptionError
from watersmeet.io.connectors.contract import Connector, Options
from watersmeet.io.connectors.registry import connector_named, connector_of
from watersmeet.io.path_formats import ALIASES, KINDS, written_kind
from watersmeet.io.providers import is_provided
from watersmeet.model.declaration import Declaration, Setting
from watersmeet.model.names import nearest
from watersmeet.model.stream_options import STREAM_OPTIONS, Of, options_of

SPARK = "spark"  # the host of that name
HISTORY = "history_"
OF_READING = ("time_unit", "time_format", "time_zone", "rounding")
# What both hosts read of a format.
OF_FORMATS = {"csv": ("delimiter", "sep", "header", "null_values")}
OF_CSV = {"sep": "delimiter"}  # what means the same
# Spark's own, by format as Spark documents them. They go on to its reader.
ANY_FILE = (
    "ignoreCorruptFiles", "ignoreMissingFiles", "pathGlobFilter", "recursiveFileLookup", "modifiedBefore",
    "modifiedAfter",
)  # fmt: skip
# How fast files are taken and what becomes of them: they change no answer, so other hosts pass over them.
PACE = ("maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "maxCachedFiles",
        "discardCachedInputRatio")  # fmt: skip
OF_SPARK: dict[str, tuple[str, ...]] = {
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": ("mergeSchema",),
    "text": ("wholetext", "lineSep"),
    "csv": (
        "encoding", "charset", "quote", "escape", "comment", "inferSchema", "preferDate", "enforceSchema",
        "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "nanValue", "positiveInf", "negativeInf",
        "dateFormat", "timestampFormat", "timestampNTZFormat", "enableDateTimeParsingFallback", "maxColumns",
        "maxCharsPerColumn", "mode", "columnNameOfCorruptRecord", "multiLine", "charToEscapeQuoteEscaping",
        "samplingRatio", "emptyValue", "locale", "lineSep", "unescapedQuoteHandling", "timeZone",
    ),
    "json": (
        "timeZone", "primitivesAsString", "prefersDecimal", "allowComments", "allowUnquotedFieldNames",
        "allowSingleQuotes", "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter",
        "allowUnquotedControlChars", "allowNonNumericNumbers", "mode", "columnNameOfCorruptRecord", "dateFormat",
        "timestampFormat", "timestampNTZFormat", "enableDateTimeParsingFallback", "multiLine", "lineSep",
        "samplingRatio", "dropFieldIfAllNull", "encoding", "charset", "locale",
    ),
    "rate": ("rowsPerSecond", "rampUpTime", "numPartitions"),
    "rate-micro-batch": ("rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"),
    "socket": ("host", "port", "includeTimestamp"),
}  # fmt: skip
FILES = ("parquet", "orc", "text", "csv", "json")
CLEANING = ("cleanSource", "sourceArchiveDir")
TO_SPARK = "spark."


def name_for_spark(name: str) -> str:
    """The name by which Spark's own readers and writers know an option: `spark.NAME` goes on as NAME."""
    return name[len(TO_SPARK) :] if name.lower().startswith(TO_SPARK) else name


def format_written(declared: Declaration) -> str | None:
    """The format that a declaration names, or that the end of its path tells; None if that takes a look."""
    kind = declared.options.get("source", "").lower()
    if kind.startswith(TO_SPARK):  # Spark's own format of that name, also where a connector has it
        return kind
    if not kind:
        kind = written_kind(declared.options.get("path", "")) or ""
    return ALIASES.get(kind, kind) or None


def check_source_options(declared: Declaration, host: str) -> None:
    """Refuse options of a stream or a table that nothing reads."""
    on_spark = host == SPARK
    check_once(declared)
    if on_spark:
        _check_for_spark(declared)
    kind = format_written(declared)
    if declared.is_given:
        _check_given(declared)
        return
    if is_provided(kind):  # who makes the rows knows what it can be told
        return
    # Spark's own reader has files of stores, too.
    connector = connector_named(kind) if on_spark else connector_of("source", declared.options)
    if connector is not None:
        _check_connected(declared, connector)
        return
    if not on_spark and kind not in (None, *KINDS):  # that there is no such source is told when it is opened
        return
    check_once(declared, OF_CSV)
    ours = options_of("table" if declared.is_static else "stream", "files")
    shared = [*ours, *_of(OF_FORMATS, kind), *(PACE if kind in (None, *FILES) else ())]
    sparks = [*_of(OF_SPARK, kind), *(ANY_FILE + CLEANING if kind in (None, *FILES) else ())]
    for setting in declared.settings:
        _check_one(setting, declared, shared, sparks, kind, on_spark=on_spark)


def check_once(declared: Declaration, same: Mapping[str, str] = {}) -> None:
    """Refuse an option that is said twice, in another case or by a name that means the same: one would not be read."""
    found: set[str] = set()
    for setting in declared.settings:
        name = same.get(setting.name.lower(), setting.name.lower())
        if name in found:
            raise declared.wrong(
                f"the {name} of {declared.name!r} is said twice", setting.name.lower(), hint="leave one out"
            )
        found.add(name)


def _check_for_spark(declared: Declaration) -> None:
    for name in declared.said:
        option = STREAM_OPTIONS.get(name)
        if option is not None and option.not_on_spark is not None:
            why, hint = option.not_on_spark
            problem = f"{declared.kind} {declared.name!r} says {name}, {why}"
            raise declared.wrong(problem, name, hint=hint)


def _check_given(declared: Declaration) -> None:
    """Only a source reads words of its own; a table that is given may say what streams do if it has versions."""
    kind: Of = "table" if declared.is_static else "stream"
    ours = options_of(kind, "files") & options_of(kind, "connectors")
    for name in declared.said:
        if name in ours:
            continue
        if name in STREAM_OPTIONS and declared.is_static:
            raise declared.wrong(
                f"table {declared.name!r} says {name}, which is for tables with versions, and no key",
                hint=f"write session.table({declared.name!r}, data, time='ts', key='id')",
            )
        near = nearest(name, ["data", "schema", "replace", *ours])
        meant = f"did you mean {near}? " if near is not None else ""
        raise declared.wrong(
            f"{declared.kind} {declared.name!r} has no option {name!r}",
            hint=f"{meant}options of a connector go with source = '…', which says what they are for",
        )


def _check_connected(declared: Declaration, connector: Connector) -> None:
    """A connector says which options are its own; what all streams or tables have is there besides."""
    is_table = declared.is_static
    if connector.source is None and not (is_table and connector.table is not None):
        return  # whoever opens it says that it cannot be read so
    own = connector.table_options if is_table and connector.table is not None else connector.source_options
    common = options_of("table" if is_table else "stream", "connectors")
    if "handover" in declared.said and "history" not in declared.said:
        problem = f"{declared.name!r} says handover and no history"
        raise declared.wrong(problem, "handover", hint="add history = '…'")
    for setting in declared.settings:
        if setting.name.lower().startswith(HISTORY) and not is_table:
            wrong = _wrong_in_history(setting.name, declared.name, declared.options)
        else:
            wrong = wrong_option(setting.name, declared.name, own, common)
        if wrong is not None:
            raise OptionError(wrong[0], hint=wrong[1], sql=declared.sql, span=setting.span, option=setting.name)


def _wrong_in_history(given: str, owner: str, said: Mapping[str, str]) -> tuple[str, str] | None:
    """The same of an option of the history that a stream begins with."""
    kind = said.get("history")
    if kind is None:
        return f"{owner!r} says {given} and no history", "add history = '…', the kind of source that it is"
    connector = connector_of("source", {"source": kind, "path": said.get(f"{HISTORY}path", "")})
    formats = ("path", *OF_FORMATS.get(ALIASES.get(kind.lower(), kind.lower()), ()))
    own = Options(formats) if connector is None else connector.source_options
    return wrong_option(given[len(HISTORY) :], f"the history of {owner}", own, OF_READING)


def wrong_option(given: str, owner: str, own: Options, common: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with an option that neither a connector nor anyone else reads, and what would do."""
    name = given.lower()
    known = [*own.names, *common]
    if name in {one.lower() for one in known} or any(name.startswith(prefix) for prefix in own.prefixes):
        return None
    near = nearest(name, known)
    message = f"its options are {', '.join(sorted(dict.fromkeys(known)))}"
    message += "".join(f", and any that begin with {prefix}" for prefix in own.prefixes)
    return f"{owner!r} has no option {given!r}", message if near is None else f"did you mean {near}? {message}"


def _of(names: Mapping[str, tuple[str, ...]], kind: str | None) -> Iterable[str]:
    """The names for a format; for one that is not known yet, those of all."""
    return names.get(kind, ()) if kind is not None else [name for some in names.values() for name in some]


def _check_one(
    setting: Setting, declared: Declaration, shared: list[str], sparks: list[str], kind: str | None, *, on_spark: bool
) -> None:
    name = setting.name.lower()
    if name.startswith(TO_SPARK) or name in {one.lower() for one in shared}:
        return
    if name in {one.lower() for one in sparks}:
        if on_spark:
            return
        raise OptionError(
            f"option {setting.name} of {declared.name!r} is one of Spark's own reader, and in-process nothing reads it",
            hint="run it with --engine spark, or leave the option out",
            sql=declared.sql,
            span=setting.span,
            option=setting.name,
        )
    near = nearest(name, [*shared, *(sparks if on_spark else ())])
    if on_spark and near is None and kind is not None and kind not in OF_SPARK:
        return  # a format that others brought to Spark: only it knows its options
    raise OptionError(
        f"{declared.name!r} has no option {setting.name!r}",
        hint=_way_out(setting.name, near, shared, on_spark),
        sql=declared.sql,
        span=setting.span,
        option=setting.name,
    )


def _way_out(given: str, near: str | None, shared: list[str], on_spark: bool) -> str:
    if given.lower() in options_of("stream", "files") and "time" not in shared:
        return "that is for streams, and for tables with versions, which also say key = '…'"
    known = f"its options are {', '.join(sorted(dict.fromkeys(shared) - dict.fromkeys(PACE).keys()))}"
    message = known if near is None else f"did you mean {near}? {known}"
    return f"{message}; for one of Spark's reader write '{TO_SPARK}{given}'" if on_spark else message
