"""Why a record is bad, in the few words that are counted: the same of files, topics and whatever else is read."""

from __future__ import annotations

NULL_TIME = "null time"
TIME_OUT_OF_RANGE = "time out of range"
UNREADABLE_TIME = "unreadable time"
WRONG_TYPE = "wrong type"
NOT_TEXT = "not utf-8"
NOT_JSON = "not json"
NOT_CSV = "not csv"
NOT_AVRO = "not avro"
NOT_PROTOBUF = "not protobuf"
NO_CHANGE = "no change"  # of Debezium's, without what says which row becomes what
NO_KEY = "no key"
NO_VALUE = "no value"
