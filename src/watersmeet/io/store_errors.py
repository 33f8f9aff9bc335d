"""What libraries say of a store that refuses, as a few words: Arrow's for S3, and the one that Delta goes by."""

from __future__ import annotations

import re

_OF_A_STORE = re.compile(r"AWS Error|Error performing \w+ ")
# The first that fits, of the most telling ones.
_GISTS = (
    (r"NO_SUCH_BUCKET|NoSuchBucket", "there is no such bucket"),
    (
        r"INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE|SignatureDoesNotMatch",
        "the store does not know these credentials",
    ),
    (r"ACCESS_DENIED|AccessDenied|403 Forbidden|necessary privileges", "access denied"),
    (r"NETWORK_CONNECTION|client error \(Connect\)|Connection refused|dns error", "the store does not answer"),
)


def gist_of(error: BaseException) -> str | None:
    """The gist of what a store says; None if it is none of its sentences.

    >>> gist_of(OSError("When listing: AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: no such bucket"))
    'there is no such bucket'
    >>> gist_of(OSError("Is a directory"))
    """
    text = str(error)
    if _OF_A_STORE.search(text) is None:
        return None
    for pattern, gist in _GISTS:
        if re.search(pattern, text):
            return gist
    word = re.search(r"AWS Error (\w+)", text)
    status = re.search(r"HTTP status (\d+)|code\W+(\d{3}) ", text)
    if word is None and status is None:
        return None
    number = "" if status is None else f" (HTTP {status[1] or status[2]})"
    return f"the store says {word[1]}{number}" if word is not None else f"the store refuses{number}"
