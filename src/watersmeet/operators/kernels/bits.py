"""What processors do with the bits of a word in one instruction, and Numba has no word for."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def bit_length(typingctx: Any, word: Any) -> Any:
    """How many bits a non-negative int64 has: 64 without its leading zeros."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The 0 asks for a defined answer, 64, where no bit is set.
        zeros = builder.ctlz(args[0], ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(64), zeros)

    return types.int64(types.int64), codegen
