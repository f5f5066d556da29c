/* AES-256 for a batch in one call, for crypto.py. The cipher is OpenSSL's, from the library that Python's own modules use;
 * only the way to it is shorter: one context for a key, and no objects between the steps.
 *
 *     Gcm(key).seal_all(epoch, first, contents, clears) ──▶ length of the rest | clear part | sealed content, tag | …
 *     Gcm(key).open(epoch, lsn, sealed, clear) ──▶ content; None: that is not what was sealed
 *     Gcm(key).open_all(epoch, lsns, offsets, lengths, data, base, width) ──▶ contents of records of a file whose bytes
 *         from `base` on are `data`, with clear parts of this width; ends before the first that is not what was sealed
 *     Macs(key).with_macs(rows, width, at, start) ──▶ each row from `start` to the end of the two blocks in it that begin at
 *         `at`, and then 12 bytes of the CBC-MAC of these blocks
 *
 * The nonce of a record is epoch(32) ‖ lsn(64), big-endian. Where the library cannot be had there is no such module, and
 * crypto.py does without it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "openssl.h"

#define KEY_BYTES 32
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define LENGTH_BYTES 4
#define BLOCK 16
#define MAC_BYTES 12
#define GET_TAG 0x10 /* numbers of OpenSSL's EVP_CTRL_AEAD_GET_TAG and EVP_CTRL_AEAD_SET_TAG */
#define SET_TAG 0x11

typedef unsigned char Byte;
typedef void Context;

/* OpenSSL's, with their names there; the same since 1.1.0. */
static struct {
    Context *(*create)(void);
    void (*destroy)(Context *);
    const void *(*aes_256_gcm)(void);
    const void *(*aes_256_ecb)(void);
    int (*begin_sealing)(Context *, const void *, void *, const Byte *, const Byte *);
    int (*begin_opening)(Context *, const void *, void *, const Byte *, const Byte *);
    int (*seal)(Context *, Byte *, int *, const Byte *, int);
    int (*open)(Context *, Byte *, int *, const Byte *, int);
    int (*end_sealing)(Context *, Byte *, int *);
    int (*end_opening)(Context *, Byte *, int *);
    int (*control)(Context *, int, int, void *);
} library;

typedef struct {
    PyObject_HEAD
    Context *sealing;
    Context *opening;
} Gcm;

typedef struct {
    PyObject_HEAD
    Context *blocks;
} Macs;

static void write_number(Byte *at, uint64_t number, int bytes) {
    for (int n = 0; n < bytes; n++) {
        at[n] = (Byte)(number >> 8 * (bytes - 1 - n));
    }
}

static void make_nonce(Byte nonce[NONCE_BYTES], uint32_t epoch, uint64_t lsn) {
    write_number(nonce, epoch, 4);
    write_number(nonce + 4, lsn, 8);
}

/* Writes a record behind `at`, and answers where it ends; NULL: the library failed. */
static Byte *seal_one(Gcm *self, Byte *at, const Byte *nonce, PyObject *content, const Byte *clear, Py_ssize_t width) {
    Context *context = self->sealing;
    int size = (int)PyBytes_GET_SIZE(content), count = 0;
    uint32_t length = (uint32_t)(width + size + TAG_BYTES);
    Byte *sealed = at + LENGTH_BYTES + width, *tag = sealed + size;
    for (int n = 0; n < LENGTH_BYTES; n++) {
        at[n] = (Byte)(length >> 8 * n);
    }
    memcpy(at + LENGTH_BYTES, clear, (size_t)width);
    if (library.begin_sealing(context, NULL, NULL, NULL, nonce) != 1 ||
        library.seal(context, NULL, &count, clear, (int)width) != 1 ||
        library.seal(context, sealed, &count, (const Byte *)PyBytes_AS_STRING(content), size) != 1 ||
        library.end_sealing(context, tag, &count) != 1 || library.control(context, GET_TAG, TAG_BYTES, tag) != 1) {
        return NULL;
    }
    return tag + TAG_BYTES;
}

/* Of all records together; -1: these are no contents with clear parts. */
static Py_ssize_t bytes_of(PyObject *contents, PyObject *clears) {
    Py_ssize_t total = 0, count = PyList_Check(contents) ? PyList_GET_SIZE(contents) : 0;
    int is_right = count > 0 && PyBytes_Check(clears) && PyBytes_GET_SIZE(clears) % count == 0;
    for (Py_ssize_t n = 0; is_right && n < count; n++) {
        PyObject *content = PyList_GET_ITEM(contents, n);
        is_right = PyBytes_Check(content) && PyBytes_GET_SIZE(content) <= INT_MAX / 2;
        total += is_right ? LENGTH_BYTES + PyBytes_GET_SIZE(content) + TAG_BYTES : 0;
    }
    if (!is_right || PyBytes_GET_SIZE(clears) > INT_MAX / 2) {
        PyErr_SetString(PyExc_TypeError, "seal_all() takes a list of bytes, and bytes with as many parts of one length");
        return -1;
    }
    return total + PyBytes_GET_SIZE(clears);
}

static int read_place(PyObject *epoch, PyObject *lsn, uint32_t *epoch_found, uint64_t *lsn_found) {
    unsigned long read = PyLong_AsUnsignedLong(epoch);
    *lsn_found = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(lsn);
    *epoch_found = (uint32_t)read;
    if (!PyErr_Occurred() && read > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an epoch has 32 bits");
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *fail(const char *doing) {
    PyErr_Format(PyExc_RuntimeError, "OpenSSL failed while %s", doing);
    return NULL;
}

static int is_called_right(Py_ssize_t count, Py_ssize_t wanted, const char *name) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments", name, wanted);
    }
    return count == wanted;
}

/* The interpreter's lock is kept, here and below: a context serves one at a time, and nobody may change the list. */
static PyObject *seal_all(Gcm *self, PyObject *const *arguments, Py_ssize_t count) {
    uint32_t epoch;
    uint64_t lsn;
    if (!is_called_right(count, 4, "seal_all") || read_place(arguments[0], arguments[1], &epoch, &lsn) < 0) {
        return NULL;
    }
    PyObject *contents = arguments[2], *clears = arguments[3];
    Py_ssize_t total = bytes_of(contents, clears);
    PyObject *records = total < 0 ? NULL : PyBytes_FromStringAndSize(NULL, total);
    if (records == NULL) {
        return NULL;
    }
    Py_ssize_t width = PyBytes_GET_SIZE(clears) / PyList_GET_SIZE(contents);
    const Byte *clear = (const Byte *)PyBytes_AS_STRING(clears);
    Byte *at = (Byte *)PyBytes_AS_STRING(records), nonce[NONCE_BYTES];
    for (Py_ssize_t n = 0; at != NULL && n < PyList_GET_SIZE(contents); n++, clear += width) {
        make_nonce(nonce, epoch, lsn + (uint64_t)n);
        at = seal_one(self, at, nonce, PyList_GET_ITEM(contents, n), clear, width);
    }
    if (at == NULL) {
        Py_DECREF(records);
        return fail("it sealed");
    }
    return records;
}

/* Answers the content; None: that is not what was sealed; NULL: an error is set. */
static PyObject *open_one(Gcm *self, const Byte *nonce, const Byte *clear, Py_ssize_t width, const Byte *sealed,
                          Py_ssize_t length) {
    Context *context = self->opening;
    int size = (int)length - TAG_BYTES, written = 0;
    if (size < 0) {
        Py_RETURN_NONE;
    }
    PyObject *content = PyBytes_FromStringAndSize(NULL, size);
    if (content == NULL) {
        return NULL;
    }
    Byte *to = (Byte *)PyBytes_AS_STRING(content), end[TAG_BYTES];
    if (library.begin_opening(context, NULL, NULL, NULL, nonce) != 1 ||
        library.control(context, SET_TAG, TAG_BYTES, (void *)(sealed + size)) != 1 ||
        library.open(context, NULL, &written, clear, (int)width) != 1 ||
        library.open(context, to, &written, sealed, size) != 1) {
        Py_DECREF(content);
        return fail("it opened");
    }
    if (library.end_opening(context, end, &written) != 1) { /* the tag is another one */
        Py_DECREF(content);
        Py_RETURN_NONE;
    }
    return content;
}

static PyObject *open_single(Gcm *self, PyObject *const *arguments, Py_ssize_t count) {
    uint32_t epoch;
    uint64_t lsn;
    if (!is_called_right(count, 4, "open") || read_place(arguments[0], arguments[1], &epoch, &lsn) < 0) {
        return NULL;
    }
    PyObject *sealed = arguments[2], *clear = arguments[3];
    if (!PyBytes_Check(sealed) || !PyBytes_Check(clear) || PyBytes_GET_SIZE(sealed) > INT_MAX / 2 ||
        PyBytes_GET_SIZE(clear) > INT_MAX / 2) {
        PyErr_SetString(PyExc_TypeError, "open() takes two numbers and two bytes");
        return NULL;
    }
    Byte nonce[NONCE_BYTES];
    make_nonce(nonce, epoch, lsn);
    return open_one(self, nonce, (const Byte *)PyBytes_AS_STRING(clear), PyBytes_GET_SIZE(clear),
                    (const Byte *)PyBytes_AS_STRING(sealed), PyBytes_GET_SIZE(sealed));
}

/* Where records are: their lsns, places in a file and lengths, and the bytes of that file from `base` on. */
typedef struct {
    PyObject *const *columns;
    PyObject *data;
    Py_ssize_t base;
    Py_ssize_t width; /* of their clear parts */
} Places;

/* NULL: an error is set. */
static PyObject *open_nth(Gcm *self, const Places *places, uint32_t epoch, Py_ssize_t n) {
    uint64_t lsn = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(places->columns[0], n));
    Py_ssize_t offset = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(PyTuple_GET_ITEM(places->columns[1], n));
    Py_ssize_t length = PyErr_Occurred() ? 0 : PyLong_AsSsize_t(PyTuple_GET_ITEM(places->columns[2], n));
    Py_ssize_t size = PyBytes_GET_SIZE(places->data);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (offset < places->base || length < places->width || length > size || offset - places->base > size - length) {
        Py_RETURN_NONE;
    }
    const Byte *clear = (const Byte *)PyBytes_AS_STRING(places->data) + (offset - places->base);
    Byte nonce[NONCE_BYTES];
    make_nonce(nonce, epoch, lsn);
    return open_one(self, nonce, clear, places->width, clear + places->width, length - places->width);
}

static int are_places(const Places *places) {
    int is_right = PyBytes_Check(places->data) && PyBytes_GET_SIZE(places->data) <= INT_MAX / 2;
    is_right = is_right && places->base >= 0 && places->width >= 0;
    for (int n = 0; is_right && n < 3; n++) {
        PyObject *column = places->columns[n];
        is_right = PyTuple_Check(column) && PyTuple_GET_SIZE(column) == PyTuple_GET_SIZE(places->columns[0]);
    }
    if (!is_right) {
        PyErr_SetString(PyExc_TypeError, "open_all() takes three tuples of one length, and bytes");
    }
    return is_right;
}

static PyObject *open_all(Gcm *self, PyObject *const *arguments, Py_ssize_t count) {
    uint32_t epoch;
    uint64_t base;
    if (!is_called_right(count, 7, "open_all") || read_place(arguments[0], arguments[5], &epoch, &base) < 0) {
        return NULL;
    }
    Places places = {arguments + 1, arguments[4], (Py_ssize_t)base, PyLong_AsSsize_t(arguments[6])};
    if (PyErr_Occurred() || !are_places(&places)) {
        return NULL;
    }
    PyObject *contents = PyList_New(0);
    for (Py_ssize_t n = 0; contents != NULL && n < PyTuple_GET_SIZE(places.columns[0]); n++) {
        PyObject *content = open_nth(self, &places, epoch, n);
        if (content == Py_None) {
            Py_DECREF(content);
            break;
        }
        if (content == NULL || PyList_Append(contents, content) < 0) {
            Py_CLEAR(contents);
        }
        Py_XDECREF(content);
    }
    return contents;
}

/* The CBC-MACs of two blocks in each of so many rows, a block each; NULL: an error is set. */
static PyObject *macs_of(Macs *self, const Byte *blocks, Py_ssize_t width, Py_ssize_t rows) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, rows * BLOCK);
    if (made == NULL) {
        return NULL;
    }
    Byte *to = (Byte *)PyBytes_AS_STRING(made);
    int size = (int)(rows * BLOCK), written = 0;
    for (Py_ssize_t n = 0; n < rows; n++) {
        memcpy(to + n * BLOCK, blocks + n * width, BLOCK);
    }
    int is_done = library.seal(self->blocks, to, &written, to, size) == 1;
    for (Py_ssize_t n = 0; n < rows; n++) {
        for (Py_ssize_t byte = 0; byte < BLOCK; byte++) {
            to[n * BLOCK + byte] ^= blocks[n * width + BLOCK + byte];
        }
    }
    if (!is_done || library.seal(self->blocks, to, &written, to, size) != 1) {
        Py_DECREF(made);
        return fail("it authenticated");
    }
    return made;
}

static PyObject *with_macs(Macs *self, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t numbers[3]; /* width, at, start */
    if (!is_called_right(count, 4, "with_macs")) {
        return NULL;
    }
    for (Py_ssize_t n = 0; n < 3; n++) {
        numbers[n] = PyLong_AsSsize_t(arguments[n + 1]);
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    PyObject *rows = arguments[0];
    Py_ssize_t width = numbers[0], at = numbers[1], start = numbers[2];
    int is_right = PyBytes_Check(rows) && width > 0 && at >= 0 && at <= width - 2 * BLOCK;
    is_right = is_right && start >= 0 && start <= at + 2 * BLOCK;
    if (!is_right || PyBytes_GET_SIZE(rows) % width != 0 || PyBytes_GET_SIZE(rows) > INT_MAX / 2) {
        PyErr_SetString(PyExc_TypeError, "with_macs() takes rows of one width, with two blocks in each");
        return NULL;
    }
    Py_ssize_t all = PyBytes_GET_SIZE(rows) / width, kept = at + 2 * BLOCK - start;
    const char *row = PyBytes_AS_STRING(rows);
    PyObject *macs = macs_of(self, (const Byte *)row + at, width, all);
    PyObject *made = macs == NULL ? NULL : PyBytes_FromStringAndSize(NULL, all * (kept + MAC_BYTES));
    if (made != NULL) {
        char *to = PyBytes_AS_STRING(made);
        for (Py_ssize_t n = 0; n < all; n++, to += kept + MAC_BYTES) {
            memcpy(to, row + n * width + start, (size_t)kept);
            memcpy(to + kept, PyBytes_AS_STRING(macs) + n * BLOCK, MAC_BYTES);
        }
    }
    Py_XDECREF(macs);
    return made;
}

/* NULL: these are no 32 bytes. */
static const Byte *key_of(PyObject *arguments) {
    const Byte *key;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "y#", &key, &length)) {
        return NULL;
    }
    if (length != KEY_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a key has 32 bytes");
        return NULL;
    }
    return key;
}

static PyObject *create_gcm(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names)) {
    const Byte *key = key_of(arguments);
    Gcm *self = key == NULL ? NULL : (Gcm *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->sealing = library.create();
    self->opening = library.create();
    if (self->sealing == NULL || self->opening == NULL ||
        library.begin_sealing(self->sealing, library.aes_256_gcm(), NULL, key, NULL) != 1 ||
        library.begin_opening(self->opening, library.aes_256_gcm(), NULL, key, NULL) != 1) {
        Py_DECREF(self);
        return fail("it took the key");
    }
    return (PyObject *)self;
}

static PyObject *create_macs(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names)) {
    const Byte *key = key_of(arguments);
    Macs *self = key == NULL ? NULL : (Macs *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->blocks = library.create();
    if (self->blocks == NULL || library.begin_sealing(self->blocks, library.aes_256_ecb(), NULL, key, NULL) != 1) {
        Py_DECREF(self);
        return fail("it took the key");
    }
    return (PyObject *)self;
}

static void destroy_gcm(Gcm *self) {
    library.destroy(self->sealing); /* wipes the key; NULL does no harm */
    library.destroy(self->opening);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static void destroy_macs(Macs *self) {
    library.destroy(self->blocks);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

#define METHOD(name, function) {name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL, NULL}

static PyMethodDef GCM_METHODS[] = {
    METHOD("seal_all", seal_all),
    METHOD("open", open_single),
    METHOD("open_all", open_all),
    {NULL, NULL, 0, NULL},
};
static PyMethodDef MACS_METHODS[] = {METHOD("with_macs", with_macs), {NULL, NULL, 0, NULL}};
static PyTypeObject GCM = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.runtime._aes.Gcm",
    .tp_basicsize = sizeof(Gcm),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = GCM_METHODS,
    .tp_new = create_gcm,
    .tp_dealloc = (destructor)destroy_gcm,
};
static PyTypeObject MACS = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.runtime._aes.Macs",
    .tp_basicsize = sizeof(Macs),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = MACS_METHODS,
    .tp_new = create_macs,
    .tp_dealloc = (destructor)destroy_macs,
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_aes", NULL, 0, NULL, NULL, NULL, NULL, NULL};

static const Wanted WANTED[] = {
    {"EVP_CIPHER_CTX_new", &library.create},
    {"EVP_CIPHER_CTX_free", &library.destroy},
    {"EVP_CIPHER_CTX_ctrl", &library.control},
    {"EVP_aes_256_gcm", &library.aes_256_gcm},
    {"EVP_aes_256_ecb", &library.aes_256_ecb},
    {"EVP_EncryptInit_ex", &library.begin_sealing},
    {"EVP_EncryptUpdate", &library.seal},
    {"EVP_EncryptFinal_ex", &library.end_sealing},
    {"EVP_DecryptInit_ex", &library.begin_opening},
    {"EVP_DecryptUpdate", &library.open},
    {"EVP_DecryptFinal_ex", &library.end_opening},
};

PyMODINIT_FUNC PyInit__aes(void) {
    if (find_openssl(WANTED, sizeof WANTED / sizeof *WANTED) < 0) {
        PyErr_SetString(PyExc_ImportError, "needs OpenSSL's libcrypto, of version 1.1 or later");
        return NULL;
    }
    PyObject *module = PyType_Ready(&GCM) < 0 || PyType_Ready(&MACS) < 0 ? NULL : PyModule_Create(&MODULE);
    if (module != NULL && (PyModule_AddObjectRef(module, "Gcm", (PyObject *)&GCM) < 0 ||
                           PyModule_AddObjectRef(module, "Macs", (PyObject *)&MACS) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
