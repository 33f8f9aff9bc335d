"""Makes the library of compiled kernels: the code that Numba has made of each, in one object, with a function of C for
each combination of types that takes Python's objects apart, and puts results together again."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types

from watersmeet.compiling.kept import reached
from watersmeet.compiling.library import NAME, PACKAGE, stamp_of
from watersmeet.compiling.machine import baseline
from watersmeet.compiling.signatures import read

RUNTIME = Path(__file__).with_name("library.c")
# For every Python from the one on that library.c names.
SUFFIX = ".pyd" if sys.platform == "win32" else ".abi3.so"
# They too say what is in a library.
MADE_BY = ("build.py", "by_numba.py", "kernel.py", "library.c")
# What code may call outside itself: library.c has the first, C's own library the rest.
PROVIDED = {"NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor", "NRT_incref", "NRT_decref"}
PROVIDED |= {"memcpy", "memmove", "memset", "memcmp", "log", "exp", "pow", "sqrt", "floor", "ceil", "ldexp", "frexp"}

# Which of the words that an array is passed as leads to its items.
DATA = 4

CODES = {
    types.int64: "INT64", types.int32: "INT32", types.int16: "INT16", types.int8: "INT8", types.uint64: "UINT64",
    types.uint32: "UINT32", types.uint16: "UINT16", types.uint8: "UINT8", types.float64: "FLOAT64",
    types.float32: "FLOAT32", types.boolean: "BOOLEAN", types.none: "NOTHING",
}  # fmt: skip
IN_C = {
    types.int64: "int64_t", types.int32: "int32_t", types.int16: "int16_t", types.int8: "int8_t",
    types.uint64: "uint64_t", types.uint32: "uint32_t", types.uint16: "uint16_t", types.uint8: "uint8_t",
    types.float64: "double", types.float32: "float", types.boolean: "uint8_t", types.none: "void *",
}  # fmt: skip


def build(folder: Path, signatures: Iterable[str]) -> Path:
    """The library of kernels for these types, as a file in a folder."""
    variants: dict[str, list[Variant]] = {}
    for signature in sorted(signatures):
        variants.setdefault(signature.partition("(")[0], []).append(Variant(*read(signature)))
    everything = [one for several in variants.values() for one in several]
    for number, one in enumerate(everything):
        one.symbol = f"kernel_{number}"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{NAME.rpartition('.')[2]}{SUFFIX}"
    with tempfile.TemporaryDirectory() as scratch:
        code, glue = Path(scratch, "code.o"), Path(scratch, "generated.c")
        code.write_bytes(_object_code(everything))
        glue.write_text("\n".join(_generated(variants)), encoding="utf-8")
        _link(code, glue, library)
    return library


class Variant:
    """A kernel for one combination of types."""

    symbol = ""

    def __init__(self, kernel: Any, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.holds_lock = not kernel.targetoptions.get("nogil", False)
        kernel.compile(arguments)
        self.compiled = kernel.overloads[arguments]
        self.result = types.unliteral(self.compiled.signature.return_type)
        if isinstance(self.result, types.Optional):  # without a value it says so by its status
            self.result = self.result.type
        if self.compiled.library.has_dynamic_globals:
            raise AssertionError(f"kernel {kernel.__name__} holds addresses of this process")

    @property
    def returns_arrays(self) -> bool:
        return any(isinstance(one, types.Array) for one in _leaves([self.result]))

    @property
    def only_read(self) -> list[bool]:
        """Of each value that is given, whether it is an array that nothing is written to, as LLVM has found."""
        function = self.compiled.library.get_function(self.compiled.fndesc.llvm_func_name)
        passed = [_attributes(one) for one in function.arguments][2:]  # behind the result and the error
        found = []
        for leaf in _leaves(self.arguments):
            here, passed = passed[: len(list(_kinds(leaf)))], passed[len(list(_kinds(leaf))) :]
            is_array = isinstance(leaf, types.Array)
            # What is returned may be written to by others.
            read = is_array and bool({"readonly", "readnone"} & here[DATA]) and not self.returns_arrays
            found.append(is_array and (read or not leaf.mutable))
        return found


def _attributes(value: Any) -> set[str]:
    return {word.decode() for one in value.attributes for word in one.split()}


def _leaves(several: Iterable[Any]) -> Iterator[Any]:
    """Types with the items of tuples behind them."""
    for one in several:
        yield one
        if isinstance(one, types.BaseTuple):
            yield from _leaves(one.types)


# ---- the code of all kernels as one object


def _object_code(variants: list[Variant]) -> bytes:
    target = baseline()
    machine = llvm.Target.from_triple(target.system).create_target_machine(
        target.processor, ",".join(f"+{name}" for name in target.features), opt=3, reloc="pic", codemodel="default"
    )
    merged = llvm.parse_assembly("")
    entries = {one.compiled.fndesc.llvm_func_name: one for one in variants}
    for name, one in entries.items():
        module = one.compiled.library._get_module_for_linking().clone()
        module.get_function(name).linkage = "external"  # others come along if they are called
        merged.link_in(module)
    for function in [one for one in merged.functions if not one.is_declaration]:
        if function.name in entries:
            function.linkage, function.visibility = "external", "hidden"
            function.name = entries[function.name].symbol
        else:
            function.linkage = "internal"
    for variable in [one for one in merged.global_variables if not one.is_declaration]:
        variable.linkage = "internal"
    # What calls kernels from Python by Numba's means is not called any more.
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(merged, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    outside = {one.name for one in (*merged.functions, *merged.global_variables) if one.is_declaration}
    missing = sorted(name for name in outside - PROVIDED if not name.startswith("llvm."))
    if missing:
        raise AssertionError(f"kernels call what the library has not: {', '.join(missing)}")
    merged.verify()
    made: bytes = machine.emit_object(merged)
    return made


# ---- what calls them


def _generated(variants: dict[str, list[Variant]]) -> Iterator[str]:
    sources = _sources({name.rpartition(".")[0] for name in variants})
    yield f'#define SOURCES "{" ".join(sources)}"'
    yield f'#define STAMP "{stamp_of(sources)}"'
    yield f'#define TARGET "{baseline().processor}"'
    for several in variants.values():
        for one in several:
            yield from _call(one)
    for number, several in enumerate(variants.values()):
        made = (f"{{{len(_codes(one))}, types_{one.symbol}, call_{one.symbol}}}" for one in several)
        yield f"static const Variant variants_{number}[] = {{{', '.join(made)}}};"
    yield "static const Entry ENTRIES[] = {"
    for number, (name, several) in enumerate(variants.items()):
        yield f'    {{"{name}", {len(several)}, variants_{number}}},'
    yield "};"


def _sources(modules: set[str]) -> list[str]:
    """Files of the package that its kernels are made of."""
    made_of = {one for module in modules if module.startswith("watersmeet.") for one in reached(module)}
    files = [PACKAGE.joinpath(*one.split(".")[1:]) for one in made_of]
    found = [one / "__init__.py" if one.is_dir() else one.with_suffix(".py") for one in files]
    return sorted([*(one.relative_to(PACKAGE).as_posix() for one in found), *(f"compiling/{one}" for one in MADE_BY)])


def _codes(one: Variant) -> list[str]:
    return [_code(leaf, only_read) for leaf, only_read in zip(_leaves(one.arguments), one.only_read, strict=True)]


def _code(kind: Any, only_read: bool) -> str:
    if isinstance(kind, types.BaseTuple):
        return f"TUPLE | {len(kind.types)} << 1"
    if isinstance(kind, types.Array):
        item = _item(kind)
        if not kind.aligned:
            raise NotImplementedError(str(kind))
        items = f"ARRAY | {ord(item.kind)} << 16 | {item.itemsize} << 8"
        return f"{items} | {kind.ndim} << 4 | {'CFA'.index(kind.layout)} << 1 | {'READ_ONLY' if only_read else 0}"
    return CODES[kind]


def _item(array: Any) -> np.dtype[Any]:
    return np.dtype(np.bool_ if array.dtype == types.boolean else str(array.dtype))


def _call(one: Variant) -> Iterator[str]:
    """The function that takes values apart, calls a kernel and makes an object of what it returns."""
    symbol, leaves = one.symbol, list(_leaves(one.arguments))
    yield f"static const uint32_t types_{symbol}[] = {{{', '.join(_codes(one)) or 0}}};"
    yield f"typedef struct {{ {_declared(one.result, 'value')} }} Result_{symbol};"
    kinds = [kind for leaf in leaves for kind in _kinds(leaf)]
    given = [value for at, leaf in enumerate(leaves) for value in _values(leaf, at, one.returns_arrays)]
    yield f"extern int32_t {symbol}({', '.join([f'Result_{symbol} *', 'Raised **', *kinds])});"
    yield f"static PyObject *call_{symbol}(const Value *given) {{"
    yield f"    Result_{symbol} result = {{0}};"
    yield "    Raised *raised = NULL;"
    arrays = [at for at, leaf in enumerate(leaves) if isinstance(leaf, types.Array)] if one.returns_arrays else []
    for at in arrays:
        yield f"    MemInfo *lent_{at} = lent(given[{at}].array);"
    yield "    int32_t status;"
    lock, unlock = ("", "") if one.holds_lock else ("Py_BEGIN_ALLOW_THREADS", "Py_END_ALLOW_THREADS")
    yield f"    {lock} status = {symbol}({', '.join(['&result', '&raised', *given])}); {unlock}"
    for at in arrays:
        yield f"    NRT_decref(lent_{at});"
    yield f"    return status == 0 ? {_boxed(one.result, 'result.value')} : without_value(status, raised);"
    yield "}"


def _kinds(leaf: Any) -> Iterator[str]:
    """What a value is passed as."""
    if isinstance(leaf, types.Array):
        yield from ("MemInfo *", "PyArrayObject *", "npy_intp", "npy_intp", "void *", *["npy_intp"] * (2 * leaf.ndim))
    elif not isinstance(leaf, types.BaseTuple):
        yield IN_C[leaf]


def _values(leaf: Any, at: int, is_lent: bool) -> Iterator[str]:
    if isinstance(leaf, types.Array):
        array = f"given[{at}].array"
        yield f"lent_{at}" if is_lent else "NULL"
        yield from (array, f"PyArray_SIZE({array})", f"PyArray_ITEMSIZE({array})", f"PyArray_DATA({array})")
        yield from (f"PyArray_DIM({array}, {d})" for d in range(leaf.ndim))
        yield from (f"PyArray_STRIDE({array}, {d})" for d in range(leaf.ndim))
    elif leaf == types.none:
        yield "NULL"
    elif not isinstance(leaf, types.BaseTuple):
        field = "f" if isinstance(leaf, types.Float) else "u" if "uint" in IN_C[leaf] and leaf != types.boolean else "i"
        yield f"({IN_C[leaf]})given[{at}].{field}"


def _declared(kind: Any, name: str) -> str:
    """A field of a result, laid out as Numba has it."""
    if isinstance(kind, types.BaseTuple):
        return f"struct {{ {' '.join(_declared(one, f'f{i}') for i, one in enumerate(kind.types))} }} {name};"
    if isinstance(kind, types.Array):
        fields = "MemInfo *memory; PyObject *parent; npy_intp items, width; void *data;"
        return f"struct {{ {fields} npy_intp shape[{kind.ndim}], strides[{kind.ndim}]; }} {name};"
    return f"{IN_C[kind]} {name};"


def _boxed(kind: Any, value: str) -> str:
    if isinstance(kind, types.BaseTuple):
        parts = [_boxed(one, f"{value}.f{i}") for i, one in enumerate(kind.types)]
        return f'Py_BuildValue("({"N" * len(parts)})", {", ".join(parts)})'
    if isinstance(kind, types.Array):
        fields = f"{value}.memory, {value}.parent, {value}.data, {kind.ndim}, {value}.shape, {value}.strides"
        return f"boxed_array({fields}, {_item(kind).num})"
    if kind == types.none:
        return "Py_NewRef(Py_None)"
    if kind == types.boolean:
        return f"PyBool_FromLong({value})"
    if isinstance(kind, types.Float):
        return f"PyFloat_FromDouble({value})"
    return f"PyLong_From{'LongLong' if kind.signed else 'UnsignedLongLong'}({value})"


def _link(code: Path, glue: Path, library: Path) -> None:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    command = [
        *compiler, "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-fno-strict-aliasing", "-w",
        f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}", f'-DGENERATED="{glue}"',
        str(RUNTIME), str(code), "-lm", "-Wl,-s", "-o", str(library),
    ]  # fmt: skip
    subprocess.run(command, check=True)
