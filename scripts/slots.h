/* Included before all else that mypyc generates: compiled code finds fields of structs, methods of objects whose class it
 * does not know, and imported names as quickly as the interpreter does.
 *
 * mypyc reads a field of a class that it did not compile by PyObject_GetAttr, which looks the name up in the type each
 * time. CPython's interpreter does so once per place in the code and remembers where the field is. So does this. Nothing
 * else changes: what is remembered belongs to one version of a type or of a module's dictionary, whatever is changed gets
 * another version, and what is not remembered goes the usual way.
 *
 *     place in the code ──other type──▶ table of all places ──not there──▶ type, as ever
 *
 * Laws
 * - A field is remembered only if the type reads its attributes in the default way, and it is a slot, or what a compiled
 *   class has for one.
 * - A method is remembered only if, besides, instances have no dictionary that could hide it.
 * - Names are compared by identity, so whoever remembers one holds on to it.
 * - What is remembered is borrowed from a type or a dictionary; while the version is the same, that still holds it.
 */
#ifndef HOLDFAST_SLOTS_H
#define HOLDFAST_SLOTS_H

#include <Python.h>
#include <structmember.h>

#if defined(__GNUC__) && !defined(Py_GIL_DISABLED) && !defined(Py_LIMITED_API)

#define HF_TABLE 2048 /* a power of two */

typedef struct {
    PyTypeObject *type;
    PyObject *name;
    Py_ssize_t offset;    /* of a slot; 0: it is no slot */
    PyObject *found;      /* the method, or the descriptor that is no slot */
    unsigned int version; /* of the type; 0 is none */
} HFPlace;

static HFPlace hf_fields[HF_TABLE];
static HFPlace hf_methods[HF_TABLE];

static inline HFPlace *hf_in_table(HFPlace *table, PyTypeObject *type, PyObject *name) {
    size_t mixed = ((size_t)type >> 4) * 31 + ((size_t)name >> 4);
    return &table[(mixed ^ (mixed >> 11)) & (HF_TABLE - 1)];
}

static inline int hf_is_at(HFPlace *place, PyTypeObject *type, PyObject *name) {
    return place->type == type && place->name == name && place->version == type->tp_version_tag && place->version != 0;
}

static void hf_put(HFPlace *place, PyTypeObject *type, PyObject *name, Py_ssize_t offset, PyObject *found) {
    PyObject *before = place->name;
    Py_INCREF(name);
    *place = (HFPlace){type, name, offset, found, type->tp_version_tag};
    Py_XDECREF(before);
}

/* In the table; and at the place in the code, if that met no other type before. One that meets several uses the table. */
static void hf_remember(HFPlace *here, HFPlace *row, PyTypeObject *type, PyObject *name, Py_ssize_t offset, PyObject *found) {
    hf_put(row, type, name, offset, found);
    if (here->type == NULL || here->type == type) {
        hf_put(here, type, name, offset, found);
    }
}

/* What another place has remembered, for one that has met no type yet, or this type before it was changed. */
static inline void hf_learn(HFPlace *here, HFPlace *row) {
    if (here->type == NULL || here->type == row->type) {
        hf_put(here, row->type, row->name, row->offset, row->found);
    }
}

/* What the type itself has by this name, if that may be remembered. Borrowed. */
static PyObject *hf_found(PyTypeObject *type, PyObject *name) {
    if (type->tp_getattro != PyObject_GenericGetAttr || !PyUnicode_CheckExact(name)) {
        return NULL;
    }
    PyObject *found = _PyType_Lookup(type, name);
    int has_version = PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) && type->tp_version_tag != 0;
    return has_version ? found : NULL;
}

/* A new reference, or NULL with the exception that PyObject_GetAttr would raise. */
static inline PyObject *hf_read(HFPlace *place, PyObject *object) {
    if (place->offset == 0) {
        PyGetSetDef *pair = ((PyGetSetDescrObject *)place->found)->d_getset;
        return pair->get(object, pair->closure);
    }
    PyObject *value = *(PyObject **)((char *)object + place->offset);
    return value != NULL ? Py_NewRef(value) : PyObject_GetAttr(object, place->name); /* which says what is missing */
}

static PyObject *hf_getattr_elsewhere(HFPlace *here, PyObject *object, PyObject *name) {
    PyTypeObject *type = Py_TYPE(object);
    HFPlace *row = hf_in_table(hf_fields, type, name);
    if (hf_is_at(row, type, name)) {
        hf_learn(here, row);
        return hf_read(row, object);
    }
    PyObject *found = hf_found(type, name);
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX && member->offset > 0 && (member->flags & ~READONLY) == 0) {
            hf_remember(here, row, type, name, member->offset, NULL);
        }
    } else if (found != NULL && Py_IS_TYPE(found, &PyGetSetDescr_Type) && ((PyGetSetDescrObject *)found)->d_getset->get) {
        hf_remember(here, row, type, name, 0, found);
    }
    return PyObject_GetAttr(object, name);
}

static inline PyObject *hf_getattr(HFPlace *here, PyObject *object, PyObject *name) {
    if (hf_is_at(here, Py_TYPE(object), name)) {
        return hf_read(here, object);
    }
    return hf_getattr_elsewhere(here, object, name);
}

static inline PyObject *hf_call_found(HFPlace *place, PyObject *const *arguments, size_t count, PyObject *keywords) {
    PyObject *method = Py_NewRef(place->found); /* it may be replaced while it runs */
    PyObject *answer = PyObject_Vectorcall(method, arguments, count & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
    Py_DECREF(method);
    return answer;
}

static PyObject *hf_call_elsewhere(
    HFPlace *here, PyObject *name, PyObject *const *arguments, size_t count, PyObject *keywords
) {
    PyTypeObject *type = Py_TYPE(arguments[0]);
    HFPlace *row = hf_in_table(hf_methods, type, name);
    if (hf_is_at(row, type, name)) {
        hf_learn(here, row);
        return hf_call_found(row, arguments, count, keywords);
    }
    if (type->tp_dictoffset == 0 && !PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT)) {
        PyObject *found = hf_found(type, name);
        if (found != NULL && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
            hf_remember(here, row, type, name, 0, found);
        }
    }
    return PyObject_VectorcallMethod(name, arguments, count, keywords);
}

static inline PyObject *hf_call(HFPlace *here, PyObject *name, PyObject *const *arguments, size_t count, PyObject *keywords) {
    if (hf_is_at(here, Py_TYPE(arguments[0]), name)) {
        return hf_call_found(here, arguments, count, keywords);
    }
    return hf_call_elsewhere(here, name, arguments, count, keywords);
}

#if PY_VERSION_HEX < 0x030C0000 /* later ones have no version of a dictionary that others may read */

typedef struct {
    PyObject *dictionary;
    PyObject *key;
    uint64_t version;
    PyObject *value;
} HFName;

static HFName hf_names[HF_TABLE];

/* A name of a module, or another text in a dictionary. Borrowed. */
static inline PyObject *hf_look_up(PyObject *dictionary, PyObject *key) {
    if (!PyUnicode_CheckExact(key) || !PyDict_CheckExact(dictionary)) {
        return PyDict_GetItemWithError(dictionary, key);
    }
    size_t mixed = ((size_t)dictionary >> 4) * 31 + ((size_t)key >> 4);
    HFName *row = &hf_names[(mixed ^ (mixed >> 11)) & (HF_TABLE - 1)];
    uint64_t version = ((PyDictObject *)dictionary)->ma_version_tag;
    if (row->dictionary == dictionary && row->key == key && row->version == version) {
        return row->value;
    }
    PyObject *value = PyDict_GetItemWithError(dictionary, key);
    if (value != NULL && PyUnicode_CHECK_INTERNED(key)) { /* others are looked for once */
        PyObject *before = row->key;
        Py_INCREF(key);
        *row = (HFName){dictionary, key, version, value};
        Py_XDECREF(before);
    }
    return value;
}

#define PyDict_GetItemWithError(dictionary, key) hf_look_up((dictionary), (key))

#endif

#define PyObject_GetAttr(object, name) __extension__({ static HFPlace hf_here; hf_getattr(&hf_here, (object), (name)); })
#define PyObject_VectorcallMethod(name, arguments, count, keywords) \
    __extension__({ static HFPlace hf_here; hf_call(&hf_here, (name), (arguments), (count), (keywords)); })

#endif
#endif
