"""Reading arrays through their addresses, so that one compiled kernel serves any number of stores.

A kernel that took its stores as arguments would be compiled anew for every number of streams. Here a store is
a row of int64s, some of them addresses; whoever builds that row keeps the arrays alive during the call. A kernel
cannot see what an address leads to, so type and layout of an array are checked where its address is taken.
Passing addresses also spares the reference counting that Numba does for every array argument of every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.compiling import intrinsic, kernel

WORDS = np.dtype(np.int64)  # what load64 and store64 take an address for
HALF_WORDS = np.dtype(np.int32)  # the same for load32


def address(array: npt.NDArray[Any], kind: np.dtype[Any] = WORDS) -> int:
    """Where the first element lies, for reading: of an array of this type without gaps."""
    if array.dtype != kind or not array.flags.c_contiguous:
        raise ValueError(f"a kernel reads {kind} without gaps here, and was given {_described(array)}")
    if array.ndim == 1 and kind is WORDS:
        return int(_start(array))
    start: int = array.__array_interface__["data"][0]  # array.ctypes makes an object of its own first
    return start


@kernel
def _start(array):
    """Asking a kernel takes a fifth of the time that asking NumPy does. It is compiled for each type and number of
    dimensions, so only where a few rows would feel the difference."""
    return array.ctypes.data


def writable_address(array: npt.NDArray[Any], kind: np.dtype[Any] = WORDS) -> int:
    """The same for an array that the kernel also writes to."""
    if not array.flags.writeable:
        raise ValueError(f"a kernel writes here, and was given {_described(array)}")
    return address(array, kind)


def _described(array: npt.NDArray[Any]) -> str:
    access = "" if array.flags.writeable else ", which is read-only"
    return f"{array.dtype} of shape {array.shape} with strides {array.strides}{access}"


# What follows is for who compiles: only then are Numba and LLVM there.


def _kinds(name: str) -> tuple[Any, Any]:
    """A type as Numba and as LLVM has it."""
    from llvmlite import ir
    from numba import types

    kind = getattr(types, name)
    return kind, ir.DoubleType() if kind is types.float64 else ir.IntType(kind.bitwidth)


def _loader(name: str) -> Any:
    """Reads one item of the array at an address."""

    def load(typingctx: Any, base: Any, index: Any) -> Any:
        from numba import types

        result, kind = _kinds(name)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], kind.as_pointer())
            return builder.load(builder.gep(pointer, [args[1]]))

        return result(types.int64, types.int64), codegen

    return intrinsic(load)


load64 = _loader("int64")
load32 = _loader("int32")
load16 = _loader("int16")
load8 = _loader("int8")
load_double = _loader("float64")


def _storer(name: str) -> Any:
    """Writes one item of the array at an address."""

    def store(typingctx: Any, base: Any, index: Any, value: Any) -> Any:
        from numba import types

        taken, kind = _kinds(name)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], kind.as_pointer())
            builder.store(args[2], builder.gep(pointer, [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, taken), codegen

    return intrinsic(store)


store64 = _storer("int64")
store32 = _storer("int32")
store16 = _storer("int16")
store8 = _storer("int8")
store_double = _storer("float64")


def _mover(width: int) -> Any:
    """Copies so many items of a width from one address to another; the two may overlap."""

    def move(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = ir.IntType(width).as_pointer()
            to, since = builder.inttoptr(args[0], pointer), builder.inttoptr(args[1], pointer)
            cgutils.raw_memmove(builder, to, since, args[2], width // 8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return intrinsic(move)


move64 = _mover(64)
move8 = _mover(8)


@intrinsic
def on_stack(typingctx: Any, count: Any) -> Any:
    """Where so many int64s lie, a constant, which are there until the kernel returns. An array that a kernel makes is
    freed once nothing asks for the array any more, so its address may be another thread's by then."""
    from llvmlite import ir
    from numba import types

    if not isinstance(count, types.IntegerLiteral):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():  # Numba's own way would fill it with zeros in every call
            place = builder.alloca(ir.ArrayType(ir.IntType(64), count.literal_value))
        return builder.ptrtoint(place, ir.IntType(64))

    return types.int64(count), codegen


@kernel
def load(base, width, place):
    """The value of a column of any width that NumPy has, as an int64 that ends in its bytes."""
    if width == 8:
        return load64(base, place)
    if width == 4:
        return np.int64(load32(base, place))
    return np.int64(load16(base, place)) if width == 2 else np.int64(load8(base, place))


@kernel
def store(base, width, place, word):
    """Put that back."""
    if width == 8:
        store64(base, place, word)
    elif width == 4:
        store32(base, place, np.int32(word))
    elif width == 2:
        store16(base, place, np.int16(word))
    else:
        store8(base, place, np.int8(word))


@intrinsic
def prefetch(typingctx: Any, where: Any) -> Any:
    """Ask the processor to fetch the cache line at an address that will be read soon."""
    from llvmlite import ir
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = word(0), word(3), word(1)
        builder.call(function, [builder.inttoptr(args[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen
