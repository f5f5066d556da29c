/* The two system calls that every frame of the log makes, for syncs.py, which does them through ctypes where this was not built.
 *
 *     begin(context, descriptor, token, told_by)    io_submit of one IOCB_CMD_FDSYNC
 *     ended(context, told_by) ──▶ [(token, errno), …]    io_getevents of all that ended, and the eventfd is read
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__linux__)

#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64

/* Reads so many numbers; -1: these are none, or another count of them. */
static int read_numbers(PyObject *const *arguments, Py_ssize_t count, unsigned long long *numbers, Py_ssize_t wanted) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd numbers are needed, not %zd", wanted, count);
        return -1;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        numbers[n] = PyLong_AsUnsignedLongLong(arguments[n]);
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static PyObject *begin(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    unsigned long long numbers[4];
    if (read_numbers(arguments, count, numbers, 4) < 0) {
        return NULL;
    }
    struct iocb request = {
        .aio_data = numbers[2],
        .aio_lio_opcode = IOCB_CMD_FDSYNC,
        .aio_fildes = (unsigned)numbers[1],
        .aio_flags = IOCB_FLAG_RESFD,
        .aio_resfd = (unsigned)numbers[3],
    };
    struct iocb *requests[] = {&request};
    if (syscall(SYS_io_submit, (aio_context_t)numbers[0], 1L, requests) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *ended(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    unsigned long long numbers[2];
    struct io_event events[EVENTS_MAX];
    struct timespec at_once = {0, 0};
    uint64_t told;
    if (read_numbers(arguments, count, numbers, 2) < 0) {
        return NULL;
    }
    if (read((int)numbers[1], &told, sizeof told) < 0 && errno != EAGAIN) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    long found = syscall(SYS_io_getevents, (aio_context_t)numbers[0], 0L, (long)EVENTS_MAX, events, &at_once);
    if (found < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *tokens = PyList_New(found);
    for (long n = 0; tokens != NULL && n < found; n++) {
        PyObject *pair = Py_BuildValue("KL", (unsigned long long)events[n].data, -(long long)events[n].res);
        if (pair == NULL) {
            Py_CLEAR(tokens);
        } else {
            PyList_SET_ITEM(tokens, n, pair);
        }
    }
    return tokens;
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))(name), METH_FASTCALL, NULL}

static PyMethodDef FUNCTIONS[] = {FUNCTION(begin), FUNCTION(ended), {NULL, NULL, 0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_aio", NULL, 0, FUNCTIONS, NULL, NULL, NULL, NULL};
#endif

PyMODINIT_FUNC PyInit__aio(void) {
#if defined(__linux__)
    return PyModule_Create(&MODULE);
#else
    PyErr_SetString(PyExc_ImportError, "is for Linux");
    return NULL;
#endif
}
