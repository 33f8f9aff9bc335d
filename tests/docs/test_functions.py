"""The index of functions, docs/functions.md, and the casts of docs/language.md are those of the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import duckdb
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.docs.test_shown import LANGUAGE, ROOT
from watersmeet.errors import DataError, SqlError
from watersmeet.model.types import arrow_type, comparable, sql_type
from watersmeet.operators.evaluate import evaluate
from watersmeet.plan import functions
from watersmeet.plan.expressions import Call, Expression, Literal, walk
from watersmeet.plan.functions import AGGREGATES, FUNCTIONS, aggregate_type, result_type, scalar_name
from watersmeet.plan.nodes import Project
from watersmeet.plan.over_functions import OVER_FUNCTIONS, over_type
from watersmeet.sql import bind
from watersmeet.sql.equivalents import _MAKERS
from watersmeet.sql.foreign import FUNCTIONS as FOREIGN
from watersmeet.sql.refused_functions import REFUSED

INDEX = ROOT / "docs" / "functions.md"
WHOLE = (pa.int8(), pa.int64(), pa.uint64())
NUMBERS = (*WHOLE, pa.float32(), pa.float64(), pa.decimal128(10, 2))
TIMES = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
LISTS = (pa.list_(pa.string()), pa.list_(pa.int64()))
NESTED = (*LISTS, pa.struct([("n", pa.int64())]), pa.map_(pa.string(), pa.int64()))
PLAIN = (*NUMBERS, pa.bool_(), pa.string(), pa.binary(), *TIMES, pa.duration("us"), pa.time64("us"))
KINDS: dict[str, tuple[pa.DataType, ...]] = {
    "number": NUMBERS,
    "whole": WHOLE,
    "text": (pa.string(),),
    "bytes": (pa.string(), pa.binary()),
    "time": TIMES,
    "interval": (pa.duration("us"),),
    "condition": (pa.bool_(),),
    "list": LISTS,
    "map": (pa.map_(pa.string(), pa.int64()),),
    "any": (*PLAIN, *NESTED),
    "T": PLAIN,
    "value": tuple(t for t in PLAIN if t not in (pa.binary(), pa.duration("us"))),
}
ROW = pa.table(
    {
        "x": pa.array([2], pa.int64()), "y": pa.array([3], pa.int64()), "z": pa.array([4], pa.int64()),
        "c": pa.array([True]), "s": pa.array(["2026"]), "t": pa.array(["2"]), "u": pa.array(["3"]),
        "l": pa.array([[1, 2, 3]], pa.list_(pa.int64())), "r": pa.array([{"n": 1}], pa.struct([("n", pa.int64())])),
        "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "d": pa.array([0], pa.date32()), "ts": pa.array([0], pa.timestamp("us")),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A row of a table: what it shows as calls, and its other columns."""

    calls: list[str]
    cells: list[str]


def lines(title: str, page: str | None = None) -> list[Line]:
    text = page or INDEX.read_text(encoding="utf-8")
    table = re.search(rf"^\| {title} \|.*\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None, title
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table[1].splitlines()]
    cells = [[cell.strip().replace("\\|", "|") for cell in row] for row in rows]
    return [Line(in_code(first), others) for first, *others in cells]


def in_code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@dataclass(frozen=True)
class Shown:
    """`LPAD(text, whole [, text])`: what is said of a function."""

    name: str
    kinds: list[tuple[str, ...]]
    least: int
    goes_on: bool

    @classmethod
    def read(cls, call: str) -> Shown:
        name, _, inside = call.removesuffix(")").partition("(")
        kinds = [tuple(one.strip(" []").split("/")) for one in inside.split(",") if one.strip(" []…")]
        return cls(name.lower(), kinds, len(kinds) - inside.count("["), "…" in inside)

    def counts(self) -> range:
        return range(self.least, len(self.kinds) + 1)

    def types(self, position: int) -> tuple[pa.DataType, ...]:
        return tuple(dict.fromkeys(t for kind in self.kinds[position] for t in KINDS[kind]))


# -- the functions --------------------------------------------------------------------------------------------------


def test_the_index_has_every_function_that_is_called_by_name_and_no_other() -> None:
    shown = [Shown.read(line.calls[0]).name for line in lines("function")]
    assert shown == sorted(name for name in FUNCTIONS if scalar_name(name))


@pytest.mark.parametrize("line", lines("function"), ids=lambda line: line.calls[0].partition("(")[0])
def test_a_function_takes_and_gives_what_the_index_says(line: Line) -> None:
    shown = Shown.read(line.calls[0])
    signature = FUNCTIONS[shown.name]
    assert signature.at_least == shown.least or shown.goes_on
    assert (signature.at_most is None) == shown.goes_on
    if shown.name != "make_timestamp":  # of one, or of six
        assert shown.goes_on or signature.at_most == len(shown.kinds)
    _check_types(shown, line.cells[0], lambda args: result_type(shown.name, args))
    aliases = sorted(alias.upper() for alias, name in functions._ALIASES.items() if name == shown.name)
    assert sorted(in_code(line.cells[2])) == aliases


def _check_types(shown: Shown, gives: str, typed: object) -> None:
    """Every type that is said to be taken is, at every place, and no other; and the result is what is said."""
    for count in shown.counts():
        usual = [shown.types(place)[0] for place in range(count)]
        for place in range(count):
            for t in (*PLAIN, *NESTED):
                # Where all are of one kind they go together.
                together = ("T",) in shown.kinds or shown.name.startswith("list_")
                alike = {("T",)} if together and shown.kinds[place] == ("T",) else set()
                args = [t if at == place or shown.kinds[at] in alike else one for at, one in enumerate(usual)]
                given = _try(typed, args)
                if shown.kinds[place] in (("any",), ("list",)) and ("list",) in shown.kinds:
                    assert shown.kinds[place] == ("any",) or place or (given is None) or t in LISTS, (shown, t)
                elif shown.name == "to_json":
                    assert (given is not None) == (t != pa.binary()), t
                elif shown.kinds[place] == ("T",) and pa.types.is_nested(t):
                    continue
                else:
                    assert (given is not None) == (t in shown.types(place)), (shown.name, place, t)
                if given is not None:
                    assert _is_said(given, gives, args), (shown.name, args, given)


def _try(typed: object, args: Sequence[pa.DataType]) -> pa.DataType | None:
    try:
        return typed(args)  # type: ignore[operator, no-any-return]
    except TypeError:
        return None


def _is_said(given: pa.DataType, gives: str, args: Sequence[pa.DataType]) -> bool:
    first = args[0] if args else pa.null()
    if pa.types.is_duration(first) and "of intervals an interval" in gives:
        return bool(given == first)
    if named := re.match(r"`([A-Z]+(?:\[\])?)`", gives):
        zone = getattr(next((t for t in args if t in TIMES), None), "tz", None)
        return given == (pa.timestamp("us", tz=zone) if "zone" in gives else arrow_type(named[1]))
    if gives.startswith("number"):
        numbers = [t.value_type if pa.types.is_list(t) else t for t in args]
        floats, decimals = (any(map(is_one, numbers)) for is_one in (pa.types.is_floating, pa.types.is_decimal))
        return given == pa.float64() if floats else pa.types.is_decimal(given) if decimals else given == pa.int64()
    if gives.startswith("a list of T"):
        return bool(comparable(given.value_type, first))
    if gives.startswith("the list"):
        return bool(given in args)
    if gives.startswith("a list of its"):
        return bool(given == pa.list_(first.key_type if "keys" in gives else first.item_type))
    if gives.startswith("the type of its entries"):
        return bool(given == first.value_type)
    if gives.startswith("a list of it"):
        return bool(given == pa.list_(first))
    if gives.startswith("a map of both"):
        return bool(given == pa.map_(*args))
    return bool(comparable(given, first))  # T, or as it takes


# -- examples, and NULL ---------------------------------------------------------------------------------------------


def session() -> wm.Session:
    made = wm.Session()
    made.stream("a", ROW, time="ts")
    return made


def examples() -> dict[str, str]:
    """By what each shows."""
    called = {line.calls[0].partition("(")[0].lower(): in_code(line.cells[3]) for line in lines("function")}
    signs = {f"operator {line.calls[0]}": in_code(line.cells[2]) for line in lines("operator")}
    return {f"{name} {at}": text for name, texts in (called | signs).items() for at, text in enumerate(texts)}


def test_every_example_is_true() -> None:
    shown = examples()
    selected = ", ".join(f"({text}) AS e{at}" for at, text in enumerate(shown.values()))
    (row,) = session().sql(f"SELECT {selected} FROM a").to_arrow().to_pylist()
    assert [text for text, holds in zip(shown.values(), row.values(), strict=True) if holds is not True] == []


@cache
def bound(text: str) -> Expression:
    root = bind(f"SELECT {text} AS e FROM a", session().catalog).root
    assert isinstance(root, Project)
    return root.columns[0][1]


def calls_in(text: str) -> Iterator[Call]:
    return (one for one in walk(bound(text)) if isinstance(one, Call))


def test_the_examples_show_every_function_and_operator() -> None:
    seen = {call.function for text in examples().values() for call in calls_in(text)}
    # What holds several arguments of an aggregate together, or stands around what it gives; nobody writes these.
    assert set(FUNCTIONS) - seen == {"pack", "json_enclosed"}


@pytest.mark.parametrize("line", lines("function"), ids=lambda line: line.calls[0].partition("(")[0])
def test_a_function_of_null_is_what_the_index_says(line: Line) -> None:
    name = Shown.read(line.calls[0]).name
    call = next(one for text in in_code(line.cells[3]) for one in calls_in(text) if one.function == name)
    # The unit of these is a constant.
    places = range(name in ("date_trunc", "date_diff"), len(call.args))
    nulls = [_of_null(call, place) for place in places]
    assert not nulls or all(nulls) == line.cells[1].startswith("NULL") or (name, nulls) == ("nullif", [True, False])


def _of_null(call: Call, place: int) -> bool:
    """Whether it is NULL if that argument is."""
    args = [Literal(None, one.type) if at == place else one for at, one in enumerate(call.args)]
    columns = ROW.to_batches()[0].column
    if call.function == "json_object" and place % 2 == 0:
        with pytest.raises(DataError, match="a field needs a name"):
            evaluate(replace(call, args=tuple(args)), lambda one: columns(one.name), 1)
        return False
    return evaluate(replace(call, args=tuple(args)), lambda one: columns(one.name), 1).null_count == 1


# -- other ways to write them ---------------------------------------------------------------------------------------


def test_every_other_way_to_write_a_call_means_what_is_said() -> None:
    shown = [(call, in_code(line.cells[0])[0]) for line in lines("written") for call in line.calls]
    assert [(call, meant) for call, meant in shown if _selected(call) != _selected(meant)] == []
    named = {
        (name.lower(), inside.count(",") + 1)
        for call, _ in shown
        for name, inside in re.findall(r"(\w+)\((.*)\)", call)
    }
    assert named == set(_MAKERS)


def _selected(call: str) -> Expression:
    aggregate = re.match(r"\(?(COUNT|APPROX|UNIQ|COLLECT|TOPK|ARRAY_AGG)", call)
    root = bind(f"SELECT {call} AS e FROM a" + (" [UNBOUNDED]" if aggregate else ""), session().catalog).root
    assert isinstance(root, Project)
    return root.columns[0][1]


# -- what is not taken ----------------------------------------------------------------------------------------------

# Of these there is nothing that a query over streams could ask for: what a database is, or how DuckDB is made inside.
_OF_A_DATABASE = re.compile(
    "(icu_)?collate_|icu_|pg_|has_.*_privilege|st_|variant_|inet_|current_|json_(de)?serialize_|json_copy_|json_group_"
    "|uuid_|.*_byte_comparable|is (not )?distinct|.*_escape|.*description|.*_type$|.*_aggregate_state"
    "|parse_duckdb_|.*_pg_oid"
)
_INSIDE = """
aggregate array_to_string_comma_default array_value binom combine constant_or_null create_sort_key date_sub
decimal_division finalize generate_subscripts get_block_size hive_partition_component in_search_path index_key
invoke is_histogram_other_bin range stats switch unpivot_list vertex_extract write_log
"""
POSTGRES = """
abs cbrt ceil ceiling degrees div erf erfc exp factorial floor gamma gcd lcm lgamma ln log log10 min_scale mod pi
power radians round scale sign sqrt trim_scale trunc width_bucket random random_normal setseed acos acosd asin asind
atan atand atan2 atan2d cos cosd cot cotd sin sind tan tand sinh cosh tanh asinh acosh atanh bit_length char_length
character_length lower lpad ltrim normalize octet_length overlay position rtrim substring trim upper unicode_assigned
ascii btrim chr concat concat_ws format initcap casefold left length md5 parse_ident quote_ident quote_literal
quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
regexp_split_to_table regexp_substr repeat replace reverse right rpad split_part starts_with string_to_array
string_to_table strpos substr to_ascii to_bin to_hex to_oct translate unistr bit_count crc32 crc32c get_bit get_byte
set_bit set_byte sha224 sha256 sha384 sha512 convert convert_from convert_to encode decode to_char to_date to_number
to_timestamp age clock_timestamp current_date current_time current_timestamp date_add date_bin date_part date_subtract
date_trunc isfinite justify_days justify_hours justify_interval localtime localtimestamp make_date make_interval
make_time make_timestamp make_timestamptz now statement_timestamp timeofday transaction_timestamp enum_first enum_last
enum_range gen_random_uuid uuidv4 uuidv7 to_json to_jsonb array_to_json json_array row_to_json json_build_array
jsonb_build_array json_build_object jsonb_build_object json_object json_scalar json_serialize json_array_elements
json_array_elements_text json_array_length json_each json_each_text json_extract_path json_extract_path_text
json_object_keys json_populate_record json_to_record json_strip_nulls jsonb_set jsonb_insert jsonb_path_exists
jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty json_typeof jsonb_typeof
json_exists json_query json_value coalesce nullif greatest least array_append array_cat array_dims array_fill
array_length array_lower array_ndims array_position array_positions array_prepend array_remove array_replace
array_reverse array_sample array_shuffle array_sort array_to_string array_upper cardinality trim_array
"""


def names_of_duckdb() -> set[str]:
    query = "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
    names = {name for (name,) in duckdb.sql(query).fetchall() if name[0].isalpha()}
    return {name for name in names if not _OF_A_DATABASE.match(name)} - set(_INSIDE.split())


def test_every_function_of_duckdb_and_postgresql_is_there_or_refused_with_a_hint() -> None:
    equal = {name for name, _ in _MAKERS} | {"to_timestamp", "date_add"}
    asked = names_of_duckdb() | set(POSTGRES.split())
    unknown = {name for name in asked if not (functions.is_known(name) or name in equal or name in REFUSED)}
    assert sorted(unknown - set(FOREIGN)) == []


def test_nothing_is_refused_that_is_there() -> None:
    assert [name for name in REFUSED if functions.is_known(name) or name in {one for one, _ in _MAKERS}] == []


def test_the_page_shows_what_is_refused_and_why() -> None:
    shown = {name.lower(): line.cells[0] for line in lines("not taken") for name in line.calls}
    assert shown == REFUSED
    with pytest.raises(SqlError, match="there is no function JARO_SIMILARITY") as caught:
        session().sql("SELECT JARO_SIMILARITY(s, t) AS e FROM a")
    assert caught.value.hint == REFUSED["jaro_similarity"]


# -- aggregates and OVER --------------------------------------------------------------------------------------------


def test_the_index_has_every_aggregate_and_no_other() -> None:
    shown = {Shown.read(call).name for line in lines("aggregate") for call in line.calls}
    assert shown == set(AGGREGATES)
    others = [alias.lower() for line in lines("aggregate") for alias in in_code(line.cells[1])]
    assert sorted(others) == sorted(functions._AGGREGATE_ALIASES)


@pytest.mark.parametrize("line", lines("aggregate"), ids=lambda line: line.calls[0].partition("(")[0])
def test_an_aggregate_takes_and_gives_what_the_index_says(line: Line) -> None:
    names = {alias.lower() for alias in in_code(line.cells[1])}
    meant = {Shown.read(call).name for call in line.calls}
    assert {name for alias, name in functions._AGGREGATE_ALIASES.items() if alias in names} <= meant
    for shown in (Shown.read(call) for call in line.calls if call != "COUNT(*)"):
        _check_types(shown, line.cells[0], lambda args, name=shown.name: aggregate_type(name, args))


def test_the_index_has_every_function_of_over_and_no_other() -> None:
    shown = [(Shown.read(call), line.cells[0]) for line in lines("function of OVER") for call in line.calls]
    assert {one.name for one, _ in shown} == set(OVER_FUNCTIONS)
    for one, gives in shown:
        given = over_type(one.name, [] if one.name == "ntile" else [pa.string()][: len(one.kinds)])
        assert sql_type(given) == next((kind for kind in ("BIGINT", "DOUBLE") if kind in gives), "STRING")


# -- casts ----------------------------------------------------------------------------------------------------------

SOURCES: dict[str, pa.DataType] = {
    "`BOOLEAN`": pa.bool_(),
    "whole numbers": pa.int32(),
    "`DECIMAL`": pa.decimal128(10, 2),
    "`FLOAT`, `DOUBLE`": pa.float64(),
    "`STRING`": pa.string(),
    "`BINARY`": pa.binary(),
    "`DATE`": pa.date32(),
    "`TIMESTAMP`": pa.timestamp("us"),
    "`TIMESTAMPTZ`": pa.timestamp("us", tz="UTC"),
    "intervals": pa.duration("us"),
    "times of day": pa.time64("us"),
    "lists": pa.list_(pa.int64()),
    "structs": pa.struct([("n", pa.int64())]),
    "maps": pa.map_(pa.string(), pa.int64()),
}


def matrix() -> list[tuple[str, str, str]]:
    """From, to, and what the page says of it."""
    text = LANGUAGE.read_text(encoding="utf-8")
    table = re.search(r"^(\| from \\ to \|.*)\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    titles, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in [table[1], *table[2].splitlines()]
    ]
    return [(row[0], to, cell) for row in rows for to, cell in zip(titles[1:], row[1:], strict=True)]


def test_the_matrix_has_every_type_that_a_cast_can_name() -> None:
    assert list(dict.fromkeys(source for source, _, _ in matrix())) == list(SOURCES)
    targets = {sql_type(SOURCES[to]).partition("(")[0] for _, to, _ in matrix()}
    assert targets == {"BOOLEAN", "INT", "DECIMAL", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMPTZ"}


@pytest.mark.filterwarnings("ignore:midnight")
@pytest.mark.parametrize(("source", "target", "said"), matrix())
def test_a_cast_is_there_or_not_as_the_matrix_says(source: str, target: str, said: str) -> None:
    kind, to = SOURCES[source], SOURCES[target]
    made = wm.Session()
    made.stream("a", schema=pa.schema([("v", kind), ("w", to), ("ts", pa.timestamp("us"))]), time="ts")
    assert _binds(made, f"SELECT CAST(v AS {sql_type(to)}) AS e FROM a") == (said != "no")
    # Without a cast they stand beside each other.
    assert _binds(made, "SELECT v = w AS e FROM a") == (said == "itself" or said.endswith("meets"))


def _binds(made: wm.Session, text: str) -> bool:
    try:
        bind(text, made.catalog)
    except SqlError:
        return False
    return True


def test_the_index_is_in_the_order_of_names() -> None:
    names = [line.calls[0] for line in lines("function")]
    assert [pair for pair in pairwise(names) if pair[0] > pair[1]] == []
