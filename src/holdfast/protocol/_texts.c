/* What a batch of plain messages is stored and answered as, each written in one go, for texts.py, which says what it is and
 * does it by itself where this was not built; and a look at a request, whose bodies make it long:
 *
 *     brackets(text, most) ──▶ how many, up to one more than `most`
 *     packed(bodies, sums, sender) ──▶ contents
 *     accepted(names, ids, sums) ──▶ reply
 *     shown(id_start, ids, handle_start, handles, contents) ──▶ reply; None: a content of another version. Ids and handles are
 *         as many pieces of one length as there are contents
 *
 * Nothing is known of queues here: lengths, copies and hexadecimal digits. Whatever is given is measured first, with all its
 * errors; then it is written, and the interpreter's lock is kept meanwhile: nobody else may change a list.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define VERSION 2 /* of a content, which content.py draws */
#define SUM_AT 6
#define SUM_BYTES 16
#define SENDER_AT (SUM_AT + SUM_BYTES)
#define SENDER_MAX UINT8_MAX
#define BODY_MAX INT32_MAX

typedef unsigned char Byte;

typedef struct {
    const char *text; /* NULL: there is none, and an error may be set */
    Py_ssize_t length;
} Part;

#define PART(literal) {(literal), sizeof(literal) - 1}

static char *put(char *at, Part part) {
    memcpy(at, part.text, (size_t)part.length);
    return at + part.length;
}

static char *put_digits(char *at, const char *sum) {
    static const char DIGITS[] = "0123456789abcdef";
    for (int n = 0; n < SUM_BYTES; n++) {
        *at++ = DIGITS[(Byte)sum[n] >> 4];
        *at++ = DIGITS[(Byte)sum[n] & 15];
    }
    return at;
}

static Part part_of(PyObject *object) {
    if (PyBytes_Check(object)) {
        return (Part){PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)};
    }
    if (PyUnicode_Check(object) && PyUnicode_IS_COMPACT_ASCII(object)) {
        return (Part){(const char *)PyUnicode_1BYTE_DATA(object), PyUnicode_GET_LENGTH(object)};
    }
    PyErr_SetString(PyExc_TypeError, "takes lists of bytes, or of texts in ASCII");
    return (Part){NULL, 0};
}

/* The `n`th of `count` pieces of one length. */
static Part piece(Part all, Py_ssize_t count, Py_ssize_t n) {
    Py_ssize_t length = all.length / count;
    return (Part){all.text + n * length, length};
}

static Part nth(PyObject *list, Py_ssize_t n) {
    return part_of(PyList_GET_ITEM(list, n));
}

/* The bytes of all parts of a list that has `count` of them, each as long as `length`, or of any length if that is 0; -1: an
 * error is set. */
static Py_ssize_t measure(PyObject *list, Py_ssize_t count, Py_ssize_t length) {
    if (!PyList_Check(list) || PyList_GET_SIZE(list) != count || count == 0) {
        PyErr_SetString(PyExc_ValueError, "takes lists of one length, none of them empty");
        return -1;
    }
    Py_ssize_t total = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        Part part = nth(list, n);
        if (part.text != NULL && length && part.length != length) {
            PyErr_Format(PyExc_ValueError, "a sum has %zd bytes", length);
        }
        if (PyErr_Occurred()) {
            return -1;
        }
        total += part.length;
    }
    return total;
}

static Py_ssize_t count_of(PyObject *list) {
    return PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
}

static int is_called_right(Py_ssize_t count, Py_ssize_t wanted) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "takes %zd arguments", wanted);
    }
    return count == wanted;
}

/* Contents */

static PyObject *pack(Part body, Part sum, Part sender) {
    if (body.length > BODY_MAX || sender.length > SENDER_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a body or its sender is too long");
        return NULL;
    }
    PyObject *content = PyBytes_FromStringAndSize(NULL, SENDER_AT + sender.length + body.length);
    if (content != NULL) {
        char *at = PyBytes_AS_STRING(content);
        *at++ = VERSION;
        *at++ = (char)sender.length;
        for (int n = 0; n < SUM_AT - 2; n++) {
            *at++ = (char)(body.length >> 8 * n);
        }
        put(put(put(at, sum), sender), body);
    }
    return content;
}

static PyObject *packed(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given) {
    if (!is_called_right(given, 3)) {
        return NULL;
    }
    PyObject *bodies = arguments[0], *sums = arguments[1];
    Part sender = part_of(arguments[2]);
    Py_ssize_t count = count_of(bodies);
    if (sender.text == NULL || measure(bodies, count, 0) < 0 || measure(sums, count, SUM_BYTES) < 0) {
        return NULL;
    }
    PyObject *contents = PyList_New(count);
    for (Py_ssize_t n = 0; contents != NULL && n < count; n++) {
        PyObject *content = pack(nth(bodies, n), nth(sums, n), sender);
        if (content == NULL) {
            Py_CLEAR(contents);
        } else {
            PyList_SET_ITEM(contents, n, content);
        }
    }
    return contents;
}

/* The body of a content; none if the version is another one, or its lengths cannot be. */
static Part body_of(Part content) {
    const Byte *head = (const Byte *)content.text;
    if (content.length < SENDER_AT || head[0] != VERSION) {
        return (Part){NULL, 0};
    }
    Py_ssize_t at = SENDER_AT + head[1];
    Py_ssize_t length = (Py_ssize_t)(head[2] | (uint32_t)head[3] << 8 | (uint32_t)head[4] << 16 | (uint32_t)head[5] << 24);
    return length <= content.length - at ? (Part){content.text + at, length} : (Part){NULL, 0};
}

/* Replies */

static PyObject *accepted(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given) {
    static const Part FIRST = PART("{\"Successful\":[{\"Id\":\""), NEXT = PART("\"},{\"Id\":\"");
    static const Part ID = PART("\",\"MessageId\":\""), SUM = PART("\",\"MD5OfMessageBody\":\""), LAST = PART("\"}]}");
    if (!is_called_right(given, 3)) {
        return NULL;
    }
    PyObject *names = arguments[0], *ids = arguments[1], *sums = arguments[2];
    Py_ssize_t count = count_of(names), of_names = measure(names, count, 0);
    Py_ssize_t of_ids = of_names < 0 ? -1 : measure(ids, count, 0);
    if (of_ids < 0 || measure(sums, count, SUM_BYTES) < 0) {
        return NULL;
    }
    Py_ssize_t each = NEXT.length + ID.length + SUM.length + 2 * SUM_BYTES;
    Py_ssize_t total = FIRST.length - NEXT.length + count * each + of_names + of_ids + LAST.length;
    PyObject *reply = PyBytes_FromStringAndSize(NULL, total);
    if (reply != NULL) {
        char *at = PyBytes_AS_STRING(reply);
        for (Py_ssize_t n = 0; n < count; n++) {
            at = put(put(at, n ? NEXT : FIRST), nth(names, n));
            at = put(put(at, ID), nth(ids, n));
            at = put_digits(put(at, SUM), nth(sums, n).text);
        }
        put(at, LAST);
    }
    return reply;
}

/* Of all bodies together; -1: one of them is none. */
static Py_ssize_t measure_bodies(PyObject *contents) {
    Py_ssize_t total = 0;
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(contents); n++) {
        Part body = body_of(nth(contents, n));
        if (body.text == NULL) {
            return -1;
        }
        total += body.length;
    }
    return total;
}

static PyObject *shown(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given) {
    static const Part FIRST = PART("{\"Messages\":[{\"MessageId\":\""), NEXT = PART("\"},{\"MessageId\":\"");
    static const Part HANDLE = PART("\",\"ReceiptHandle\":\""), SUM = PART("\",\"MD5OfBody\":\"");
    static const Part BODY = PART("\",\"Body\":\""), LAST = PART("\"}]}");
    if (!is_called_right(given, 5)) {
        return NULL;
    }
    PyObject *contents = arguments[4];
    Part parts[4]; /* id_start, ids, handle_start, handles */
    for (int n = 0; n < 4; n++) {
        parts[n] = part_of(arguments[n]);
        if (parts[n].text == NULL) {
            return NULL;
        }
    }
    Py_ssize_t count = count_of(contents);
    if (measure(contents, count, 0) < 0) {
        return NULL;
    }
    if (parts[1].length % count || parts[3].length % count) {
        PyErr_SetString(PyExc_ValueError, "takes as many ids and handles as contents, each as long as the others");
        return NULL;
    }
    Py_ssize_t of_bodies = measure_bodies(contents);
    if (of_bodies < 0) {
        Py_RETURN_NONE;
    }
    Py_ssize_t each = NEXT.length + parts[0].length + HANDLE.length + parts[2].length + SUM.length + 2 * SUM_BYTES;
    Py_ssize_t total = FIRST.length - NEXT.length + count * (each + BODY.length) + LAST.length;
    PyObject *reply = PyBytes_FromStringAndSize(NULL, total + parts[1].length + parts[3].length + of_bodies);
    if (reply != NULL) {
        char *at = PyBytes_AS_STRING(reply);
        for (Py_ssize_t n = 0; n < count; n++) {
            Part content = nth(contents, n);
            at = put(put(put(at, n ? NEXT : FIRST), parts[0]), piece(parts[1], count, n));
            at = put(put(put(at, HANDLE), parts[2]), piece(parts[3], count, n));
            at = put_digits(put(at, SUM), content.text + SUM_AT);
            at = put(put(at, BODY), body_of(content));
        }
        put(at, LAST);
    }
    return reply;
}

/* Requests */

static PyObject *brackets(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given) {
    static const char OPENING[] = {'{', '['};
    if (!is_called_right(given, 2)) {
        return NULL;
    }
    Part text = part_of(arguments[0]);
    Py_ssize_t most = text.text == NULL ? 0 : PyLong_AsSsize_t(arguments[1]), count = 0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    const char *end = text.text + text.length;
    for (size_t n = 0; n < sizeof OPENING; n++) {
        const char *at = text.text;
        while (count <= most && (at = memchr(at, OPENING[n], (size_t)(end - at))) != NULL) {
            count++;
            at++;
        }
    }
    return PyLong_FromSsize_t(count);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))(name), METH_FASTCALL, NULL}

static PyMethodDef FUNCTIONS[] = {
    FUNCTION(packed), FUNCTION(accepted), FUNCTION(shown), FUNCTION(brackets), {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_texts", NULL, 0, FUNCTIONS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__texts(void) {
    return PyModule_Create(&MODULE);
}
