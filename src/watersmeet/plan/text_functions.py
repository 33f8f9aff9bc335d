"""Functions of text and bytes."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.types import is_bytes, is_text, sql_type
from watersmeet.plan.signatures import ANY, BYTES, TEXT, WHOLE, Signature, Types, check, gives

_TEXT, _LONG, _BOOL, _BYTES = pa.string(), pa.int64(), pa.bool_(), pa.binary()
_TEXTS = pa.list_(pa.string())


def _length(function: str, args: Types) -> pa.DataType:
    if not pa.types.is_list(args[0]) and not pa.types.is_large_list(args[0]) and not is_bytes(args[0]):
        check(function, 0, args[0], TEXT)
    return _LONG


def _substring(function: str, args: Types) -> pa.DataType:
    check(function, 0, args[0], TEXT)
    for t in args[1:]:
        if not (pa.types.is_integer(t) or pa.types.is_null(t)):
            raise TypeError(f"SUBSTRING needs a whole start and length, not {sql_type(t)}")
    return _TEXT


def _hex(function: str, args: Types) -> pa.DataType:
    if not (pa.types.is_integer(args[0]) or is_text(args[0]) or is_bytes(args[0]) or pa.types.is_null(args[0])):
        raise TypeError(f"HEX needs text, bytes or a whole number, not {sql_type(args[0])}")
    return _TEXT


def _formatted(function: str, args: Types) -> pa.DataType:
    check(function, 1, args[0], TEXT)
    for t in args[1:]:
        if pa.types.is_nested(t) or pa.types.is_duration(t) or is_bytes(t):
            raise TypeError(f"{function.upper()} cannot write {sql_type(t)}; cast it to STRING first")
    return _TEXT


def _json_object(function: str, args: Types) -> pa.DataType:
    if len(args) % 2:
        raise TypeError("JSON_OBJECT takes a name and a value for each field, so an even number of arguments")
    for position, t in enumerate(args[::2]):
        check(function, 2 * position + 1, t, TEXT)
    return _TEXT


def _to_json(function: str, args: Types) -> pa.DataType:
    if is_bytes(args[0]):
        raise TypeError("TO_JSON cannot write bytes; HEX(x) and BASE64(x) are texts")
    return _TEXT


FUNCTIONS: dict[str, Signature] = {
    "like": gives(_BOOL, TEXT, TEXT),
    "concat": gives(_TEXT, TEXT, TEXT, more=True),
    "concat_ws": gives(_TEXT, TEXT, TEXT, more=True),
    "lower": gives(_TEXT, TEXT),
    "upper": gives(_TEXT, TEXT),
    "initcap": gives(_TEXT, TEXT),
    "reverse": gives(_TEXT, TEXT),
    "trim": gives(_TEXT, TEXT, TEXT, optional=1),
    "ltrim": gives(_TEXT, TEXT, TEXT, optional=1),
    "rtrim": gives(_TEXT, TEXT, TEXT, optional=1),
    "lpad": gives(_TEXT, TEXT, WHOLE, TEXT, optional=1),
    "rpad": gives(_TEXT, TEXT, WHOLE, TEXT, optional=1),
    "repeat": gives(_TEXT, TEXT, WHOLE),
    "left": gives(_TEXT, TEXT, WHOLE),
    "right": gives(_TEXT, TEXT, WHOLE),
    "length": Signature(_length, 1, 1),
    "octet_length": gives(_LONG, BYTES),
    "substring": Signature(_substring, 2, 3),
    "strpos": gives(_LONG, TEXT, TEXT),
    "starts_with": gives(_BOOL, TEXT, TEXT),
    "ends_with": gives(_BOOL, TEXT, TEXT),
    "contains": gives(_BOOL, TEXT, TEXT),
    "replace": gives(_TEXT, TEXT, TEXT, TEXT),
    "translate": gives(_TEXT, TEXT, TEXT, TEXT),
    "ascii": gives(_LONG, TEXT),
    "unicode": gives(_LONG, TEXT),
    "chr": gives(_TEXT, WHOLE),
    "split": gives(_TEXTS, TEXT, TEXT),
    "string_split_regex": gives(_TEXTS, TEXT, TEXT),
    "split_part": gives(_TEXT, TEXT, TEXT, WHOLE),
    "regexp_matches": gives(_BOOL, TEXT, TEXT, TEXT, optional=1),
    "regexp_full_match": gives(_BOOL, TEXT, TEXT, TEXT, optional=1),
    "regexp_extract": gives(_TEXT, TEXT, TEXT, WHOLE, TEXT, optional=2),
    "regexp_replace": gives(_TEXT, TEXT, TEXT, TEXT, TEXT, optional=1),
    "regexp_count": gives(_LONG, TEXT, TEXT, TEXT, optional=1),
    "regexp_match": gives(_TEXTS, TEXT, TEXT, TEXT, optional=1),
    "regexp_extract_all": gives(_TEXTS, TEXT, TEXT, WHOLE, TEXT, optional=2),
    "regexp_escape": gives(_TEXT, TEXT),
    "levenshtein": gives(_LONG, TEXT, TEXT),
    "strip_accents": gives(_TEXT, TEXT),
    "url_encode": gives(_TEXT, TEXT),
    "url_decode": gives(_TEXT, TEXT),
    "format": Signature(_formatted, 1, None),
    "printf": Signature(_formatted, 1, None),
    "md5": gives(_TEXT, BYTES),
    "sha1": gives(_TEXT, BYTES),
    "sha256": gives(_TEXT, BYTES),
    "crc32": gives(_LONG, BYTES),
    "hex": Signature(_hex, 1, 1),
    "unhex": gives(_BYTES, TEXT),
    "base64": gives(_TEXT, BYTES),
    "from_base64": gives(_BYTES, TEXT),
    "encode": gives(_BYTES, TEXT),
    "decode": gives(_TEXT, BYTES),
    "json_extract": gives(_TEXT, TEXT, ANY),
    "json_extract_string": gives(_TEXT, TEXT, ANY),
    "json_array_length": gives(_LONG, TEXT, TEXT, optional=1),
    "json_valid": gives(_BOOL, TEXT),
    "json_value": gives(_TEXT, TEXT, ANY),
    "json_exists": gives(_BOOL, TEXT, ANY),
    "json_type": gives(_TEXT, TEXT, ANY, optional=1),
    "json_keys": gives(_TEXTS, TEXT, ANY, optional=1),
    "json_object": Signature(_json_object, 2, None),
    "json_array": gives(_TEXT, ANY, more=True),
    "to_json": Signature(_to_json, 1, 1),
    "json_enclosed": gives(_TEXT, TEXT, TEXT, TEXT),
}
OPERATORS = frozenset(("json_enclosed",))  # brackets around what JSON_AGG gives of values that are JSON already
# What these give is JSON: inside of TO_JSON, JSON_OBJECT, JSON_ARRAY and JSON_AGG it is no text in quotes.
GIVING_JSON = frozenset(
    ("json_extract", "json_object", "json_array", "to_json", "json_enclosed", "json_agg", "json_object_agg",
     "jsonb_object_agg")
)  # fmt: skip
ALIASES = {
    "substr": "substring", "mid": "substring", "len": "length", "char_length": "length", "character_length": "length",
    "strlen": "length", "lcase": "lower", "ucase": "upper", "startswith": "starts_with", "prefix": "starts_with",
    "endswith": "ends_with", "suffix": "ends_with", "btrim": "trim", "instr": "strpos", "position": "strpos",
    "ord": "unicode", "char": "chr", "string_split": "split", "str_split": "split", "string_to_array": "split",
    "str_split_regex": "string_split_regex", "regexp_split_to_array": "string_split_regex",
    "regexp_like": "regexp_matches", "rlike": "regexp_matches", "regexp": "regexp_matches",
    "regexp_substr": "regexp_extract", "format_string": "printf", "sha": "sha1", "to_hex": "hex", "from_hex": "unhex",
    "to_base64": "base64", "unbase64": "from_base64", "byte_length": "octet_length", "array_length": "length",
    "list_length": "length", "cardinality": "length", "size": "length", "json_extract_path": "json_extract",
    "json_extract_path_text": "json_extract_string", "get_json_object": "json_extract_string",
    "extractjsonfield": "json_extract_string",
    "json_extract_scalar": "json_value", "json_build_object": "json_object", "jsonb_build_object": "json_object",
    "json_build_array": "json_array", "jsonb_build_array": "json_array", "to_jsonb": "to_json",
    "array_to_json": "to_json", "row_to_json": "to_json", "editdist3": "levenshtein", "unaccent": "strip_accents",
}  # fmt: skip
