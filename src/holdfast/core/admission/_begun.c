/* SHA-256 of texts that begin alike, for signature.py: Begun(start).hex_of(rest) is sha256(start + rest).hexdigest(), as bytes, in
 * one call, where hashlib takes four and makes a context each time. The hash is OpenSSL's, from the library that Python's own
 * modules use.
 *
 * Where the library cannot be had there is no such module, and hashes.py does without it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "../../runtime/openssl.h"

#define SUM_BYTES 32

/* OpenSSL's SHA256_CTX, which has 112 bytes, with room for more. */
typedef union {
    uint32_t words[64];
    uint64_t aligned;
} State;

typedef struct {
    PyObject_HEAD
    State state;
} Begun;

static struct {
    int (*init)(State *);
    int (*update)(State *, const void *, size_t);
    int (*final)(unsigned char *, State *); /* wipes the state */
    void (*cleanse)(void *, size_t);
} library;

static PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names)) {
    const char *start;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "y#", &start, &length)) {
        return NULL;
    }
    Begun *self = (Begun *)type->tp_alloc(type, 0);
    if (self != NULL) {
        library.init(&self->state);
        library.update(&self->state, start, (size_t)length);
    }
    return (PyObject *)self;
}

static void destroy(Begun *self) {
    library.cleanse(&self->state, sizeof self->state); /* it may have begun with a key */
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* The interpreter's lock is kept, however long the text is: who could run meanwhile waits for this one. */
static int sum_of(const Begun *self, PyObject *rest, unsigned char sum[SUM_BYTES]) {
    if (!PyBytes_Check(rest)) {
        PyErr_SetString(PyExc_TypeError, "only bytes are hashed");
        return -1;
    }
    State state = self->state;
    library.update(&state, PyBytes_AS_STRING(rest), (size_t)PyBytes_GET_SIZE(rest));
    library.final(sum, &state);
    return 0;
}

static PyObject *sum(Begun *self, PyObject *rest) {
    unsigned char found[SUM_BYTES];
    return sum_of(self, rest, found) < 0 ? NULL : PyBytes_FromStringAndSize((const char *)found, sizeof found);
}

static PyObject *hex(Begun *self, PyObject *rest) {
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char found[SUM_BYTES];
    char text[2 * SUM_BYTES];
    if (sum_of(self, rest, found) < 0) {
        return NULL;
    }
    for (int n = 0; n < SUM_BYTES; n++) {
        text[2 * n] = DIGITS[found[n] >> 4];
        text[2 * n + 1] = DIGITS[found[n] & 15];
    }
    return PyBytes_FromStringAndSize(text, sizeof text);
}

static PyMethodDef METHODS[] = {
    {"sum_of", (PyCFunction)sum, METH_O, NULL},
    {"hex_of", (PyCFunction)hex, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject BEGUN = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.core.admission._begun.Begun",
    .tp_basicsize = sizeof(Begun),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = METHODS,
    .tp_new = create,
    .tp_dealloc = (destructor)destroy,
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_begun", NULL, 0, NULL, NULL, NULL, NULL, NULL};

static const Wanted WANTED[] = {
    {"SHA256_Init", &library.init},
    {"SHA256_Update", &library.update},
    {"SHA256_Final", &library.final},
    {"OPENSSL_cleanse", &library.cleanse},
};

PyMODINIT_FUNC PyInit__begun(void) {
    if (find_openssl(WANTED, sizeof WANTED / sizeof *WANTED) < 0) {
        PyErr_SetString(PyExc_ImportError, "needs OpenSSL's libcrypto, of version 1.1 or later");
        return NULL;
    }
    PyObject *module = PyType_Ready(&BEGUN) < 0 ? NULL : PyModule_Create(&MODULE);
    if (module != NULL && PyModule_AddObjectRef(module, "Begun", (PyObject *)&BEGUN) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
