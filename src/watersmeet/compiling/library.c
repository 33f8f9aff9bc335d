/* What the library of compiled kernels needs beside their code: Python objects that call them, and the part of Numba's
   runtime that they ask for. What a build generates, a function for each kernel and combination of types, is included at
   the end; it needs no Numba. One library serves every Python from 3.11 on: of its C interface only what stays is used. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

/* Fast calls: in Python 3.11 as they are since, but declared as what stays only from 3.12 on. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
#define OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1)) /* a flag beside the number of arguments */
typedef PyObject *(*Call)(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
extern PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);

/* Memory that kernels take for themselves, laid out as Numba's code expects it. */

typedef struct MemInfo {
    size_t count;
    void (*dispose)(void *data, size_t size, void *info);
    void *info;
    void *data;
    size_t size;
    void *unused;
} MemInfo;

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN MemInfo *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    MemInfo *memory = malloc(sizeof(MemInfo) + size + 2 * (size_t)align);
    if (memory == NULL) {
        return NULL;
    }
    size_t start = (size_t)(memory + 1);
    *memory = (MemInfo){1, NULL, NULL, (void *)(align ? (start + align - 1) / align * align : start), size, NULL};
    return memory;
}

HIDDEN void NRT_MemInfo_call_dtor(MemInfo *memory) {
    if (memory->dispose) {
        memory->dispose(memory->data, memory->size, memory->info);
    }
    free(memory);
}

HIDDEN void NRT_incref(MemInfo *memory) {
    if (memory) {
        __atomic_add_fetch(&memory->count, 1, __ATOMIC_RELAXED);
    }
}

HIDDEN void NRT_decref(MemInfo *memory) {
    if (memory && __atomic_sub_fetch(&memory->count, 1, __ATOMIC_ACQ_REL) == 0) {
        NRT_MemInfo_call_dtor(memory);
    }
}

/* Functions that glibc has had anew since 2.29: the ones before, which give the same, so that older systems serve too. */

#if defined(__x86_64__) && defined(__GLIBC__)
#define BEFORE(NAME, TAKEN, GIVEN)                                                                                         \
    __asm__(".symver " #NAME "_before, " #NAME "@GLIBC_2.2.5");                                                            \
    extern double NAME##_before TAKEN;                                                                                     \
    HIDDEN double NAME TAKEN { return NAME##_before GIVEN; }
BEFORE(exp, (double x), (x))
BEFORE(exp2, (double x), (x))
BEFORE(log, (double x), (x))
BEFORE(log2, (double x), (x))
BEFORE(pow, (double x, double y), (x, y))
#undef BEFORE
#endif

/* Arguments: the type of each as a number, and its value. The items of a tuple follow it. */

enum {
    INT64 = 2, INT32 = 4, INT16 = 6, INT8 = 8, UINT64 = 10, UINT32 = 12, UINT16 = 14, UINT8 = 16, FLOAT64 = 18,
    FLOAT32 = 20, BOOLEAN = 22, NOTHING = 24, TUPLE = 1 << 30, ARRAY = 1u << 31,
    READ_ONLY = 1 /* of an array; of a kernel's argument: it may be, as nothing is written there */
};
#define MOST_ARGUMENTS 128

typedef union {
    int64_t i;
    uint64_t u;
    double f;
    PyArrayObject *array;
} Value;

typedef struct {
    int count;
    uint32_t types[MOST_ARGUMENTS];
    Value values[MOST_ARGUMENTS];
} Arguments;

/* Kind and width of an item, dimensions, order, whether it may be written to; 0 if no kernel is made for such. */
static uint32_t array_type(PyArrayObject *array) {
    if (!PyArray_ISNOTSWAPPED(array) || PyArray_NDIM(array) > 15) { /* as for Numba, items may lie at odd addresses */
        return 0;
    }
    uint32_t order = PyArray_IS_C_CONTIGUOUS(array) ? 0 : PyArray_IS_F_CONTIGUOUS(array) ? 1 : 2;
    uint32_t kind = (unsigned char)PyArray_DESCR(array)->kind, width = (uint32_t)PyArray_ITEMSIZE(array);
    if (width > 255 || strchr("iufb", (int)kind) == NULL) {
        return 0;
    }
    uint32_t access = PyArray_ISWRITEABLE(array) ? 0 : READ_ONLY;
    return ARRAY | kind << 16 | width << 8 | (uint32_t)PyArray_NDIM(array) << 4 | order << 1 | access;
}

static int scalar(PyObject *given, uint32_t *type, Value *value) {
    int overflow = 0;
    if (PyLong_Check(given)) {
        *type = PyBool_Check(given) ? BOOLEAN : INT64;
        value->i = PyLong_AsLongLongAndOverflow(given, &overflow);
        return !overflow;
    }
    if (PyFloat_Check(given)) { /* NumPy's doubles too */
        *type = FLOAT64;
        value->f = PyFloat_AsDouble(given);
        return 1;
    }
#define NUMBER(NAME, TYPE, FIELD)                                                                                          \
    if (PyArray_IsScalar(given, NAME)) {                                                                                   \
        *type = TYPE;                                                                                                      \
        value->FIELD = ((Py##NAME##ScalarObject *)given)->obval;                                                           \
        return 1;                                                                                                          \
    }
    NUMBER(Int64, INT64, i)
    NUMBER(UInt64, UINT64, u)
    NUMBER(Bool, BOOLEAN, i)
    NUMBER(Int32, INT32, i)
    NUMBER(UInt32, UINT32, u)
    NUMBER(Int16, INT16, i)
    NUMBER(UInt16, UINT16, u)
    NUMBER(Int8, INT8, i)
    NUMBER(UInt8, UINT8, u)
    NUMBER(Float32, FLOAT32, f)
#undef NUMBER
    *type = NOTHING;
    value->i = 0;
    return given == Py_None;
}

static int flatten(PyObject *given, Arguments *into) {
    if (into->count == MOST_ARGUMENTS) {
        return 0;
    }
    int at = into->count++;
    if (PyArray_CheckExact(given)) {
        into->values[at].array = (PyArrayObject *)given;
        return (into->types[at] = array_type((PyArrayObject *)given)) != 0;
    }
    if (!PyTuple_CheckExact(given)) {
        return scalar(given, &into->types[at], &into->values[at]);
    }
    Py_ssize_t size = PyTuple_Size(given);
    into->types[at] = TUPLE | (uint32_t)size << 1;
    for (Py_ssize_t i = 0; i < size; i++) {
        if (!flatten(PyTuple_GetItem(given, i), into)) {
            return 0;
        }
    }
    return 1;
}

/* Results. */

typedef struct {
    const char *pickled;
    int32_t size;
    const char *sum;
    void *unwrap;
    int32_t dynamic;
} Raised;

/* What a kernel that did not return a value has done instead: returned None, or raised. */
static PyObject *without_value(int32_t status, const Raised *raised) {
    if (status == -2) {
        Py_RETURN_NONE;
    }
    if (status <= 0 || raised == NULL || raised->dynamic) {
        return PyErr_Format(PyExc_SystemError, "a compiled kernel ended with status %d", status);
    }
    PyObject *pickle = PyImport_ImportModule("pickle"), *error = NULL;
    PyObject *what = pickle ? PyObject_CallMethod(pickle, "loads", "y#", raised->pickled, (Py_ssize_t)raised->size) : NULL;
    if (what && PyTuple_Check(what) && PyTuple_Size(what) >= 2) {
        error = PyObject_Call(PyTuple_GetItem(what, 0), PyTuple_GetItem(what, 1), NULL);
    }
    if (error) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    }
    Py_XDECREF(error);
    Py_XDECREF(what);
    Py_XDECREF(pickle);
    return NULL;
}

static void let_go(void *data, size_t size, void *array) { Py_DECREF((PyObject *)array); }

/* A kernel that returns arrays may return a part of what it was given, which must stay as long. */
static MemInfo *lent(PyArrayObject *array) {
    MemInfo *memory = NRT_MemInfo_alloc_aligned(0, 0);
    if (memory) {
        Py_INCREF((PyObject *)array);
        memory->dispose = let_go;
        memory->info = array;
        memory->data = PyArray_DATA(array);
    }
    return memory;
}

static void free_memory(PyObject *capsule) { NRT_decref(PyCapsule_GetPointer(capsule, NULL)); }

/* The array that a kernel returned, which owns its memory from now on; the one it was given if that was returned. */
static PyObject *boxed_array(
    MemInfo *memory, PyObject *parent, void *data, int dimensions, const npy_intp *shape, const npy_intp *strides, int type
) {
    if (parent && PyArray_Check(parent)) {
        PyArrayObject *given = (PyArrayObject *)parent;
        size_t bytes = (size_t)dimensions * sizeof(npy_intp);
        if (PyArray_DATA(given) == data && PyArray_NDIM(given) == dimensions && PyArray_TYPE(given) == type &&
            memcmp(PyArray_DIMS(given), shape, bytes) == 0 && memcmp(PyArray_STRIDES(given), strides, bytes) == 0) {
            Py_INCREF(parent);
            NRT_decref(memory);
            return parent;
        }
    }
    PyObject *owner = PyCapsule_New(memory, NULL, free_memory);
    if (owner == NULL) {
        NRT_decref(memory);
        return NULL;
    }
    PyObject *array = PyArray_New(
        &PyArray_Type, dimensions, (npy_intp *)shape, type, (npy_intp *)strides, data, 0, NPY_ARRAY_WRITEABLE, NULL
    );
    if (array == NULL) {
        Py_DECREF(owner);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, owner) < 0) { /* which takes the owner in any case */
        Py_CLEAR(array);
    }
    return array;
}

/* Kernels. */

typedef struct {
    int count;
    const uint32_t *types;
    PyObject *(*call)(const Value *);
} Variant;

typedef struct {
    const char *name;
    int count;
    const Variant *variants;
} Entry;

#include GENERATED

typedef struct {
    PyObject_HEAD
    Call vectorcall;
    const Entry *entry;
    PyObject *py_func;
    PyObject *options;
    PyObject *otherwise;
} Kernel;

static int takes(const Variant *variant, const Arguments *given) {
    if (variant->count != given->count) {
        return 0;
    }
    for (int i = 0; i < given->count; i++) {
        if ((given->types[i] | (variant->types[i] & READ_ONLY)) != variant->types[i]) {
            return 0;
        }
    }
    return 1;
}

static PyObject *kernel_vectorcall(PyObject *self, PyObject *const *given, size_t flags, PyObject *names) {
    Kernel *kernel = (Kernel *)self;
    if (kernel->entry && names == NULL) {
        Arguments arguments;
        arguments.count = 0;
        Py_ssize_t count = (Py_ssize_t)(flags & ~OFFSET), i = 0;
        while (i < count && flatten(given[i], &arguments)) {
            i++;
        }
        for (int v = 0; i == count && v < kernel->entry->count; v++) {
            const Variant *variant = kernel->entry->variants + v;
            if (takes(variant, &arguments)) {
                return variant->call(arguments.values);
            }
        }
    }
    return PyObject_Vectorcall(kernel->otherwise, given, flags, names);
}

static int by_name(const void *name, const void *entry) { return strcmp(name, ((const Entry *)entry)->name); }

static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    const char *name;
    PyObject *function, *options, *otherwise;
    if (!PyArg_ParseTuple(args, "sOOO", &name, &function, &options, &otherwise)) {
        return NULL;
    }
    Kernel *kernel = PyObject_New(Kernel, type);
    if (kernel) {
        kernel->vectorcall = kernel_vectorcall;
        kernel->entry = bsearch(name, ENTRIES, sizeof(ENTRIES) / sizeof(Entry), sizeof(Entry), by_name);
        kernel->py_func = Py_NewRef(function);
        kernel->options = Py_NewRef(options);
        kernel->otherwise = Py_NewRef(otherwise);
    }
    return (PyObject *)kernel;
}

static void kernel_dealloc(PyObject *self) {
    Kernel *kernel = (Kernel *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(kernel->py_func);
    Py_XDECREF(kernel->options);
    Py_XDECREF(kernel->otherwise);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMemberDef kernel_members[] = {
    {"py_func", T_OBJECT, offsetof(Kernel, py_func), READONLY, "the function that was compiled"},
    {"options", T_OBJECT, offsetof(Kernel, options), READONLY, "how it is compiled"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, vectorcall), READONLY, NULL},
    {NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "A kernel by the types that it was compiled for: Kernel(name, function, options, otherwise)"},
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, kernel_members},
    {0, NULL},
};

static PyType_Spec kernel_type = {
    .name = "watersmeet._kernels.Kernel",
    .basicsize = sizeof(Kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = kernel_slots,
};

/* Nothing here runs code for that processor before this was asked. */
static PyObject *runs_here(PyObject *self, PyObject *unused) {
#ifdef __x86_64__
    __builtin_cpu_init();
    return PyBool_FromLong(__builtin_cpu_supports("x86-64-v3"));
#else
    Py_RETURN_TRUE;
#endif
}

static PyMethodDef methods[] = {
    {"runs_here", runs_here, METH_NOARGS, "Whether this processor has what kernels were compiled for."},
    {NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", "Kernels that were compiled ahead.", -1, methods};

PyMODINIT_FUNC PyInit__kernels(void) {
    import_array();
    PyObject *kernel = PyType_FromSpec(&kernel_type), *made = kernel ? PyModule_Create(&module) : NULL;
    if (made && (PyModule_AddObjectRef(made, "Kernel", kernel) < 0 || PyModule_AddStringConstant(made, "STAMP", STAMP) < 0 ||
                 PyModule_AddStringConstant(made, "SOURCES", SOURCES) < 0 ||
                 PyModule_AddStringConstant(made, "TARGET", TARGET) < 0)) {
        Py_CLEAR(made);
    }
    Py_XDECREF(kernel);
    return made;
}
