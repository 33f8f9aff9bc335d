"""Scalar functions of DuckDB, PostgreSQL and others that are not taken, and what would do: hints, and a table of
docs/functions.md."""

from __future__ import annotations

_WALL_CLOCK = (
    "queries go by event time, not by the clock on the wall: EVENT_TIME() is the time of the newest row, and the last "
    "five minutes are FROM a [RANGE 5 MINUTES]; where the clock is meant, a stream says time = 'arrival'"
)
_OWN = "make it a function of your own: session.function(…), or --functions FILE.py on the command line"
_ALWAYS = "an answer is the same whenever and wherever it is computed: without chance, a clock or what a session is"

_CLOCKS = (
    "now current_timestamp current_date current_time getdate getutcdate sysdate sysdatetime systimestamp "
    "localtimestamp localtime utc_timestamp clock_timestamp statement_timestamp transaction_timestamp timeofday "
    "get_current_timestamp get_current_time current_localtimestamp current_localtime current_row_timestamp "
    "current_watermark proctime today ago"
)

# Names, and the hint for all of them.
_TABLE: tuple[tuple[str, str], ...] = (
    (
        _CLOCKS,
        _WALL_CLOCK,
    ),
    (
        "rand random uuid uuidv4 uuidv7 gen_random_uuid setseed nextval currval setval version user current_user "
        "session_user current_database current_schema current_setting getvariable pg_sleep sleep_ms txid_current",
        _ALWAYS,
    ),
    (
        "hash xxhash64 md5_number md5_number_lower md5_number_upper sha224 sha384 sha512 crc32c",
        "write MD5(x), SHA1(x), SHA256(x) or CRC32(x), which are the same everywhere",
    ),
    (
        "age months_between justify_days justify_hours justify_interval datesub",
        "write DATE_DIFF('month', a.ts, b.ts), or subtract the times: b.ts - a.ts, whose seconds are EPOCH(b.ts - "
        "a.ts)",
    ),
    (
        "adddate date_subtract",
        "write ts + INTERVAL 1 DAY, or DATE_ADD(day, 30)",
    ),
    (
        "to_decades to_centuries to_millennia make_interval normalized_interval",
        "write INTERVAL 1 DAY, n * INTERVAL 1 DAY, or beside a time TO_MONTHS(n), TO_QUARTERS(n) or TO_YEARS(n)",
    ),
    (
        "timestamp",
        "write CAST(x AS TIMESTAMP), or TO_TIMESTAMP(s) of a number",
    ),
    (
        "str_to_date",
        "write STRPTIME(x, '%Y-%m-%d %H:%M:%S')",
    ),
    (
        "from_unixtime to_timestamp_ltz to_timestamp_nanos make_timestamptz make_timestamp_ns",
        "a number becomes a time by MAKE_TIMESTAMP(us), TIMESTAMP_MILLIS(ms), TIMESTAMP_SECONDS(s) or TO_TIMESTAMP(s)",
    ),
    (
        "make_time",
        "the time of day is an interval: ts - DATE_TRUNC('day', ts)",
    ),
    (
        "to_string str",
        "write CAST(x AS STRING), or STRFTIME(ts, '%Y-%m-%d') of a time",
    ),
    (
        "to_number",
        "write CAST(x AS DECIMAL(12, 2)), or TRY_CAST; REPLACE(x, ',', '') takes commas out",
    ),
    (
        "string double float bigint int boolean",
        "write CAST(x AS STRING), CAST(x AS DOUBLE), …",
    ),
    (
        "safe_cast try_convert",
        "write TRY_CAST(x AS INT)",
    ),
    (
        "convert cast_to_type arrow_cast",
        "write CAST(x AS INT)",
    ),
    (
        "datepart",
        "write EXTRACT(HOUR FROM ts) or HOUR(ts)",
    ),
    (
        "nanosecond era julian timezone_hour timezone_minute",
        "write EXTRACT(part FROM ts), of the parts of docs/functions.md",
    ),
    (
        "convert_tz from_utc_timestamp to_utc_timestamp",
        "write (ts AT TIME ZONE 'UTC') AT TIME ZONE 'America/New_York', of what clocks show there, and the other way "
        "round; OPTIONS (timezone = 'America/New_York') says in which zone a query reads instants",
    ),
    (
        "substring_index",
        "write SPLIT_PART(s, '.', 1), or SPLIT(s, '.')[1:2]",
    ),
    (
        "overlay insert",
        "write LEFT(s, 1) || t || SUBSTRING(s, 4), which replaces characters 2 and 3",
    ),
    (
        "left_grapheme right_grapheme length_grapheme substring_grapheme",
        "write LEFT(s, n), RIGHT(s, n), LENGTH(s) or SUBSTRING(s, n, m), which count characters (code points)",
    ),
    (
        "normalize nfc_normalize casefold to_ascii unistr unicode_assigned parse_ident quote_ident quote_literal "
        "quote_nullable format_bytes format_type formatreadablesize formatreadabledecimalsize pg_size_pretty "
        "parse_formatted_bytes bar parse_path parse_dirname parse_dirpath parse_filename path_join",
        _OWN,
    ),
    (
        "soundex hamming mismatches jaccard jaro_similarity jaro_winkler_similarity damerau_levenshtein erf erfc "
        "gamma lgamma nextafter signbit even round_even roundbankers equi_width_bins acosd asind atand atan2d cosd "
        "cotd sind tand random_normal scale min_scale trim_scale",
        _OWN,
    ),
    (
        "fdiv fmod",
        "write FLOOR(x / y) and x - y * FLOOR(x / y); x // y and x % y cut towards zero",
    ),
    (
        "add subtract multiply divide",
        "write x + y, x - y, x * y, x / y",
    ),
    (
        "bin to_binary to_bin to_base to_oct from_binary unbin",
        "write PRINTF('%b', x) or PRINTF('%o', x)",
    ),
    (
        "get_bit set_bit get_byte set_byte bit_position bitstring",
        "write (x >> n) & 1, x | (1 << n), or x & ~(1 << n)",
    ),
    (
        "convert_from convert_to",
        "write DECODE(b) or ENCODE(s), of UTF-8",
    ),
    (
        "regexp_instr",
        "write STRPOS(s, REGEXP_EXTRACT(s, pattern))",
    ),
    (
        "regexp_split_to_table string_to_table",
        "write FROM a CROSS JOIN UNNEST(STRING_SPLIT_REGEX(a.s, ',')) AS t (piece)",
    ),
    (
        "typeof pg_typeof arrow_typeof can_cast_implicitly error assert_true alias",
        "types are known before a query runs: EXPLAIN",
    ),
    (
        "jsonb_path_query_first",
        "write JSON_EXTRACT(j, '$.a'), or j -> '$.a'",
    ),
    (
        "json_typeof jsonb_typeof",
        "write JSON_TYPE(j), which gives OBJECT, ARRAY, VARCHAR, BIGINT, DOUBLE, BOOLEAN or NULL",
    ),
    (
        "jsonb_path_exists jsonb_path_match json_contains",
        "write JSON_EXISTS(j, '$.a'), or compare j ->> '$.a'",
    ),
    (
        "json_array_elements json_array_elements_text jsonb_array_elements json_each json_each_text "
        "json_object_keys jsonb_path_query jsonb_path_query_array json_to_record json_populate_record",
        "write j ->> '$.a' for each value, JSON_KEYS(j) for the names; lists of JSON are not unfolded",
    ),
    (
        "from_json from_json_strict json_transform json_transform_strict json_structure json_group_structure",
        "write j ->> '$.a', cast to what it is: CAST(j ->> '$.a' AS INT)",
    ),
    (
        "json json_quote json_scalar json_serialize json_pretty jsonb_pretty json_normalize",
        "JSON is text here: TO_JSON(x) makes it",
    ),
    (
        "json_set json_insert json_replace json_remove json_merge_patch json_merge_patch_diff json_deep_merge "
        "json_strip_nulls jsonb_set jsonb_insert jsonb_strip_nulls",
        "make it anew: JSON_OBJECT('a', j -> '$.a', 'b', 2)",
    ),
    (
        "transform zip_with list_transform list_apply array_transform array_apply apply list_filter array_filter "
        "filter list_reduce array_reduce reduce list_where array_where list_select array_select list_zip array_zip "
        "list_resize array_resize list_aggregate list_aggr array_aggregate array_aggr list_grade_up array_grade_up "
        "grade_up",
        "unfold the list, FROM a CROSS JOIN UNNEST(a.items) AS t (item), or make it a function of your own",
    ),
    (
        "list_product list_median list_mode list_mad list_any_value list_approx_count_distinct list_string_agg "
        "list_histogram list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_stddev_pop "
        "list_stddev_samp list_var_pop list_var_samp list_sem list_skewness list_kurtosis list_kurtosis_pop "
        "list_entropy geomean geometric_mean wavg weighted_avg",
        "write LIST_SUM, LIST_AVG, LIST_MIN, LIST_MAX, LIST_COUNT or LIST_UNIQUE; or make it a function of your own",
    ),
    (
        "array_push_front array_pop_back array_pop_front trim_array array_remove array_replace array_positions "
        "array_upper array_lower array_ndims array_dims array_fill array_sample array_shuffle",
        "write LIST_PREPEND(x, l), l[2:], l[:-2], LIST_POSITION(l, x) or LENGTH(l)",
    ),
    (
        "list_distance array_distance list_cosine_similarity list_cosine_distance array_cosine_similarity "
        "array_cosine_distance list_dot_product list_inner_product array_dot_product array_inner_product "
        "array_cross_product list_negative_dot_product list_negative_inner_product array_negative_dot_product "
        "array_negative_inner_product",
        _OWN,
    ),
    (
        "map map_from_entries map_concat map_entries map_contains_value map_contains_entry map_extract "
        "map_extract_value",
        "maps come in columns; of one write m['key'], MAP_KEYS(m), MAP_VALUES(m) or MAP_CONTAINS(m, 'key')",
    ),
    (
        "row struct_insert struct_update struct_concat struct_keys struct_values struct_contains "
        "struct_has struct_position struct_indexof struct_extract_at union_value union_tag union_extract "
        "remap_struct",
        "of a struct write s.field; STRUCT(x AS a, s.b) makes one, JSON_OBJECT('a', x) a text",
    ),
    (
        "enum_code enum_first enum_last enum_range enum_range_boundary",
        "enums are text here: compare them as such",
    ),
    (
        "nullif_zero zeroifnull",
        "write NULLIF(x, 0) or COALESCE(x, 0)",
    ),
)

# The hint for each name, in lower case.
REFUSED: dict[str, str] = {name: hint for names, hint in _TABLE for name in names.split()}
# Those that others write without parentheses, as if they were columns.
CLOCKS: dict[str, str] = dict.fromkeys(_CLOCKS.split(), _WALL_CLOCK)
