"""CAST and TRY_CAST, which constants undergo as columns do."""

from __future__ import annotations

from watersmeet.model.casts import cast, try_cast
from watersmeet.operators.scalar.values import Function

FUNCTIONS: dict[str, Function] = {
    "cast": lambda args, call: cast(args[0], call.type),
    "try_cast": lambda args, call: try_cast(args[0], call.type),
}
