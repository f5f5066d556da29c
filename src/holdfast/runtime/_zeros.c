/* A file filled with zeros in pieces, with rests; zeros.py says why, and does the same where this was not built.
 *
 *     fill(descriptor, offset, length, work_ns, rest_ns, piece_bytes)
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__linux__)

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

/* As in zeros.py. */
#define WRITE_BYTES_MIN 16384LL
#define WRITE_BYTES_MAX 65536LL
#define AHEAD_BYTES 1048576LL

static const char ZEROS[WRITE_BYTES_MAX];

/* What the calling thread has had of a processor. */
static long long worked_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int write_all(int descriptor, long long count, long long offset) {
    while (count > 0) {
        ssize_t written = pwrite(descriptor, ZEROS, (size_t)count, offset);
        if (written < 0 && errno != EINTR) {
            return -1;
        }
        if (written > 0) {
            count -= written;
            offset += written;
        }
    }
    return 0;
}

static int range(int descriptor, long long offset, long long count, unsigned what) {
    int found;
    do {
        found = sync_file_range(descriptor, offset, count, what);
    } while (found < 0 && errno == EINTR);
    return found;
}

static int hand_over(int descriptor, long long offset, long long count) {
    if (range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE) == 0) {
        long long until = offset + count - AHEAD_BYTES, from = until > count ? until - count : 0;
        return until <= 0 ? 0 : range(descriptor, from, until - from, SYNC_FILE_RANGE_WAIT_BEFORE);
    }
    if (errno != ENOSYS && errno != EPERM && errno != EINVAL && errno != EOPNOTSUPP) {
        return -1;
    }
    return offset / AHEAD_BYTES == (offset + count) / AHEAD_BYTES ? 0 : fdatasync(descriptor);
}

static int fill_all(int descriptor, long long offset, long long length, long long work_ns, long long rest_ns,
                    long long piece) {
    const struct timespec rest = {rest_ns / 1000000000LL, rest_ns % 1000000000LL};
    long long end = offset + length, handed = offset, size = WRITE_BYTES_MIN;
    long long began = worked_ns(), now = began;
    while (offset < end) {
        long long count = end - offset < size ? end - offset : size, before = now;
        if (write_all(descriptor, count, offset) < 0) {
            return -1;
        }
        offset += count;
        if (offset - handed >= piece || offset == end) {
            if (hand_over(descriptor, handed, offset - handed) < 0) {
                return -1;
            }
            handed = offset;
        }
        now = worked_ns();
        if ((now - before) * 4 < work_ns) {
            size = size * 2 < WRITE_BYTES_MAX ? size * 2 : WRITE_BYTES_MAX;
        } else if ((now - before) * 2 > work_ns) {
            size = size / 2 > WRITE_BYTES_MIN ? size / 2 : WRITE_BYTES_MIN;
        }
        if (rest_ns > 0 && (offset == end || now - began >= work_ns)) {
            nanosleep(&rest, NULL);
            began = now = worked_ns();
        }
    }
    return 0;
}

static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *arguments) {
    int descriptor, found;
    long long offset, length, work_ns, rest_ns, piece;
    if (!PyArg_ParseTuple(arguments, "iLLLLL", &descriptor, &offset, &length, &work_ns, &rest_ns, &piece)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    found = fill_all(descriptor, offset, length, work_ns, rest_ns, piece);
    Py_END_ALLOW_THREADS
    if (found < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef FUNCTIONS[] = {{"fill", fill, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_zeros", NULL, 0, FUNCTIONS, NULL, NULL, NULL, NULL};
#endif

PyMODINIT_FUNC PyInit__zeros(void) {
#if defined(__linux__)
    return PyModule_Create(&MODULE);
#else
    PyErr_SetString(PyExc_ImportError, "is for Linux");
    return NULL;
#endif
}
