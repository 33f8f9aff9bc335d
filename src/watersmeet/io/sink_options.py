"""Which options an output may have, by its format and the host that writes it; any other is refused."""

from __future__ import annotations

from watersmeet.errors import OptionError
from watersmeet.io.connectors.contract import Connector
from watersmeet.io.connectors.registry import connector_named, connector_of
from watersmeet.io.path_formats import SPELLINGS, written_kind
from watersmeet.io.source_options import OF_CSV, SPARK, TO_SPARK, check_once, wrong_option
from watersmeet.model.declaration import Declaration, Setting
from watersmeet.model.names import nearest

# What both hosts read, by format.
OF_FILES = ("sink", "path", "mode", "partition_by")
OURS: dict[str, tuple[str, ...]] = {
    "console": ("sink", "limit"),
    "parquet": (*OF_FILES, "compression"),
    "csv": (*OF_FILES, "delimiter", "sep", "header"),
    "tsv": (*OF_FILES, "delimiter", "sep", "header"),
    "json": OF_FILES,
}
# Of Spark's own writers, as Spark documents them. They go on to the writer; those of text are for `spark.csv` and
# `spark.json`, as csv and json are written by us on both hosts.
ANY_FILE = ("retention", "maxRecordsPerFile")
TIMES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone")
OF_SPARK: dict[str, tuple[str, ...]] = {
    "console": (),
    "noop": (),
    "memory": (),
    "parquet": ANY_FILE,
    "orc": (*ANY_FILE, "compression"),
    "text": (*ANY_FILE, "compression", "lineSep"),
    "csv": (
        *ANY_FILE, *TIMES, "compression", "encoding", "charset", "quote", "escape", "quoteAll", "escapeQuotes",
        "charToEscapeQuoteEscaping", "nullValue", "emptyValue", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
        "lineSep",
    ),
    "json": (*ANY_FILE, *TIMES, "compression", "encoding", "charset", "ignoreNullFields", "lineSep"),
}  # fmt: skip
TEXTS = ("csv", "tsv", "json")  # that we write, on any host
# Parquet's and ORC's own settings, such as parquet.block.size.
PREFIXES = {"parquet": "parquet.", "orc": "orc."}
CHECKPOINT = "checkpointlocation"


def check_sink_options(declared: Declaration, host: str) -> None:
    """Refuse options of a sink that nothing reads."""
    on_spark, kind = host == SPARK, format_written(declared)
    connector = connector_named(kind) if on_spark else connector_of("sink", declared.options)
    if connector is None and (kind is None or (kind not in OURS and not on_spark)):
        return  # whoever opens it says what is wrong with that
    check_once(declared, OF_CSV if connector is None else {})
    for setting in declared.settings:
        wrong = _wrong_for(connector, setting, declared.name, kind or "", on_spark=on_spark)
        if wrong is not None:
            problem, hint = wrong
            raise OptionError(problem, hint=hint, sql=declared.sql, span=setting.span, option=setting.name)


def format_written(declared: Declaration) -> str | None:
    """The format that a declaration names, or that the end of its path tells."""
    path = declared.options.get("path", "").lower()
    said = declared.options.get("sink", "").lower()
    kind = said or written_kind(path) or ""
    return SPELLINGS.get(kind, kind) or None


def _wrong_for(
    connector: Connector | None, setting: Setting, owner: str, kind: str, *, on_spark: bool
) -> tuple[str, str] | None:
    if connector is None:
        return _wrong(setting, owner, kind, on_spark=on_spark)
    return wrong_option(setting.name, owner, connector.sink_options, ("sink", "if_gone"))


def _wrong(setting: Setting, owner: str, kind: str, *, on_spark: bool) -> tuple[str, str] | None:
    """What is wrong with an option and what would do, if anything is."""
    name = setting.name.lower()
    own = kind.removeprefix(TO_SPARK)
    ours, sparks = OURS.get(own, OF_FILES), OF_SPARK.get(own, ())
    is_ours = kind in TEXTS
    if name.removeprefix(TO_SPARK) == CHECKPOINT:
        return "a checkpoint belongs to the run, not to its sink", "leave the option out, and say --checkpoint DIR"
    if name.startswith(TO_SPARK) and not (on_spark and is_ours):
        return None
    if name in ours:
        return _wrong_value(setting, owner)
    # No option begins with a blank.
    if name.startswith(TO_SPARK) or name in _lower(sparks) or name.startswith(PREFIXES.get(own, " ")):
        return _of_sparks_writer(setting, owner, kind, on_spark=on_spark)
    near = nearest(name, [*ours, *(sparks if on_spark and not is_ours else ())])
    if on_spark and near is None and own not in OF_SPARK:
        return None  # a format that others brought to Spark: only it knows its options
    to_spark = on_spark and not is_ours
    return f"{owner!r} has no option {setting.name!r}", _way_out(setting.name, near, kind, ours, to_spark)


def _lower(names: tuple[str, ...]) -> set[str]:
    return {one.lower() for one in names}


def _of_sparks_writer(setting: Setting, owner: str, kind: str, *, on_spark: bool) -> tuple[str, str] | None:
    what = f"option {setting.name} of {owner!r} is one of Spark's own writer"
    if not on_spark:
        return f"{what}, and in-process nothing reads it", "run it with --engine spark, or leave the option out"
    if kind not in TEXTS:
        return None
    own = "csv" if kind == "tsv" else kind
    return (
        f"{what}, and {kind} is written by us",
        f"leave it out, or say sink = '{TO_SPARK}{own}', which is Spark's writer",
    )


def _wrong_value(setting: Setting, owner: str) -> tuple[str, str] | None:
    if setting.name.lower() != "header" or setting.value.lower() in ("true", "false"):
        return None
    return f"{owner!r} has header = {setting.value!r}", "write header = 'true' or header = 'false'"


def _way_out(given: str, near: str | None, kind: str, ours: tuple[str, ...], to_spark: bool) -> str:
    known = f"the options of a {kind} sink are {', '.join(ours)}"
    message = known if near is None else f"did you mean {near}? {known}"
    return f"{message}; for one of Spark's writer write '{TO_SPARK}{given}'" if to_spark else message
