"""Reading what Arrow tells of a batch by its C data interface: a struct of int64s for the batch, and one for each
column."""

from __future__ import annotations

from typing import Any

from watersmeet.compiling import intrinsic, kernel
from watersmeet.operators.kernels.memory import load8, load64

# The fields of ArrowArray; those of buffers are the validity and the values.
LENGTH, NULLS, OFFSET, BUFFERS, CHILDREN, RELEASE = 0, 1, 2, 5, 6, 8
FIELDS = 10

# What is known of event times that were read.
UNREAD, IN_ORDER, OUT_OF_ORDER = range(3)


@intrinsic
def call_with_address(typingctx: Any, function: Any, argument: Any) -> Any:
    """Call the C function at an address with an address."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte]).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [builder.inttoptr(args[1], byte)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@kernel
def has_nulls(column, validity):
    """Of a slice nobody may have counted them yet."""
    if validity == 0 or load64(column, NULLS) >= 0:
        return validity != 0 and load64(column, NULLS) > 0
    first = load64(column, OFFSET)
    for place in range(first, first + load64(column, LENGTH)):
        if not load8(validity, place >> 3) >> (place & 7) & 1:
            return True
    return False


@kernel(brief=True)
def lay_out(struct, widths, time, most, addresses, times):
    """Write down where the columns of a batch begin, from 1 on: 0 of one that has NULLs, or no width. The struct is
    released: whoever has the batch keeps it alive.

    Times that are asked for are copied from their column, the address of which is the first then; they are left unread
    if one is further from 1970 than `most`. Gives what is known of them."""
    children = load64(struct, CHILDREN)
    for c in range(widths.size):
        addresses[1 + c] = 0
        if widths[c] > 0:  # others may have no buffers at all
            column = load64(children, c)
            buffers = load64(column, BUFFERS)
            if not has_nulls(column, load64(buffers, 0)):
                addresses[1 + c] = load64(buffers, 1) + load64(column, OFFSET) * widths[c]
    call_with_address(load64(struct, RELEASE), struct)
    addresses[0] = addresses[1 + time] if times.size else 0
    if addresses[0] == 0:
        return UNREAD
    order = IN_ORDER
    for i in range(times.size):
        t = load64(addresses[0], i)
        if not -most <= t <= most:
            return UNREAD
        if i and t < times[i - 1]:
            order = OUT_OF_ORDER
        times[i] = t
    return order
