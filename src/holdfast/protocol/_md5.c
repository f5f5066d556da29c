/* MD5 of several texts side by side, for digests.py: sums(texts) is [hashlib.md5(text).digest() for text in texts], or None
 * where that is quicker.
 *
 * Each step of MD5 waits for the one before, so a single text leaves most of a processor idle. Here up to sixteen texts take
 * each step together, as the lanes of two vectors:
 *
 *     text ──whole blocks, where they stand──▶ lane ──▶ sum
 *         └─last bytes, padded───────────────▶
 *
 * A lane whose text is over computes on, and nobody looks. Only for x86-64 with AVX2: elsewhere there is no such module, and
 * hashlib does it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

#define WIDTH 8 /* lanes of a vector */
#define VECTORS 2
#define LANES (WIDTH * VECTORS)
#define BLOCK 64
#define PARTS 4      /* of a sum, of 32 bits each */
#define LENGTH_AT 56 /* in a text's last block, the number of its bits */
#define WORTH_IT 3   /* texts as long as the longest; fewer are quicker one by one */
#define AVX2 __attribute__((target("avx2")))

typedef uint32_t Vector __attribute__((vector_size(4 * WIDTH)));

typedef struct {
    const unsigned char *text;
    size_t whole; /* blocks of it */
    size_t all;   /* blocks, with those of its end */
    unsigned char end[2 * BLOCK];
} Lane;

/* RFC 1321: what is added in each step, by how many bits each is rotated, and the sum of nothing yet. */
static const uint32_t SINES[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const int TURNS[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
static const uint32_t BEGUN[PARTS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
static const unsigned char NOTHING[BLOCK];

/* Eight words of each of eight lanes become eight vectors, each with the same word of all lanes. Unrolled, all of it stays in
 * registers. */
AVX2 static inline void transpose(const unsigned char *const *from, size_t offset, Vector *words) {
    __m256i row[WIDTH], pairs[WIDTH], fours[WIDTH];
#pragma GCC unroll 8
    for (int lane = 0; lane < WIDTH; lane++) {
        row[lane] = _mm256_loadu_si256((const __m256i *)(from[lane] + offset));
    }
#pragma GCC unroll 8
    for (int lane = 0; lane < WIDTH; lane += 2) {
        pairs[lane] = _mm256_unpacklo_epi32(row[lane], row[lane + 1]);
        pairs[lane + 1] = _mm256_unpackhi_epi32(row[lane], row[lane + 1]);
    }
#pragma GCC unroll 8
    for (int lane = 0; lane < WIDTH; lane += 4) {
        fours[lane] = _mm256_unpacklo_epi64(pairs[lane], pairs[lane + 2]);
        fours[lane + 1] = _mm256_unpackhi_epi64(pairs[lane], pairs[lane + 2]);
        fours[lane + 2] = _mm256_unpacklo_epi64(pairs[lane + 1], pairs[lane + 3]);
        fours[lane + 3] = _mm256_unpackhi_epi64(pairs[lane + 1], pairs[lane + 3]);
    }
#pragma GCC unroll 8
    for (int word = 0; word < WIDTH / 2; word++) {
        words[word] = (Vector)_mm256_permute2x128_si256(fours[word], fours[word + 4], 0x20);
        words[word + 4] = (Vector)_mm256_permute2x128_si256(fours[word], fours[word + 4], 0x31);
    }
}

/* The next block of each lane. The steps of one vector fill the time in which those of the other wait. */
AVX2 static void digest_block(Vector state[VECTORS][PARTS], const unsigned char *const *from) {
    Vector words[VECTORS][16], a[VECTORS], b[VECTORS], c[VECTORS], d[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        transpose(from + v * WIDTH, 0, words[v]);
        transpose(from + v * WIDTH, BLOCK / 2, words[v] + 8);
        a[v] = state[v][0], b[v] = state[v][1], c[v] = state[v][2], d[v] = state[v][3];
    }
#pragma GCC unroll 64
    for (int step = 0; step < 64; step++) {
        int round = step / 16, turns = TURNS[round][step % 4];
        int word = (round == 0 ? step : round == 1 ? 5 * step + 1 : round == 2 ? 3 * step + 5 : 7 * step) % 16;
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            Vector mixed = round == 0   ? d[v] ^ (b[v] & (c[v] ^ d[v]))
                           : round == 1 ? c[v] ^ (d[v] & (b[v] ^ c[v]))
                           : round == 2 ? b[v] ^ c[v] ^ d[v]
                                        : c[v] ^ (b[v] | ~d[v]);
            Vector sum = a[v] + mixed + SINES[step] + words[v][word];
            a[v] = d[v], d[v] = c[v], c[v] = b[v];
            b[v] += (sum << turns) | (sum >> (32 - turns));
        }
    }
    for (int v = 0; v < VECTORS; v++) {
        state[v][0] += a[v], state[v][1] += b[v], state[v][2] += c[v], state[v][3] += d[v];
    }
}

static void begin(Lane *lane, PyObject *text) {
    size_t length = (size_t)PyBytes_GET_SIZE(text), rest = length % BLOCK;
    uint64_t bits = (uint64_t)length * 8;
    lane->text = (const unsigned char *)PyBytes_AS_STRING(text);
    lane->whole = length / BLOCK;
    lane->all = lane->whole + (rest < LENGTH_AT ? 1 : 2);
    memset(lane->end, 0, sizeof lane->end);
    memcpy(lane->end, lane->text + length - rest, rest);
    lane->end[rest] = 0x80;
    memcpy(lane->end + (lane->all - lane->whole) * BLOCK - 8, &bits, 8); /* little-endian, as this processor is */
}

static const unsigned char *block_of(const Lane *lane, size_t block) {
    if (block < lane->whole) {
        return lane->text + block * BLOCK;
    }
    return block < lane->all ? lane->end + (block - lane->whole) * BLOCK : NOTHING;
}

/* Of `count` texts, as many as there are lanes or fewer, from `first` on. */
AVX2 static void digest(PyObject *texts, Py_ssize_t first, int count, uint32_t sums[LANES][PARTS]) {
    Vector state[VECTORS][PARTS];
    Lane lanes[LANES];
    const unsigned char *from[LANES];
    size_t longest = 0;
    for (int part = 0; part < PARTS; part++) {
        state[0][part] = state[1][part] = (Vector){0} + BEGUN[part];
    }
    for (int lane = 0; lane < LANES; lane++) {
        from[lane] = NOTHING;
    }
    for (int lane = 0; lane < count; lane++) {
        begin(&lanes[lane], PyList_GET_ITEM(texts, first + lane));
        longest = lanes[lane].all > longest ? lanes[lane].all : longest;
    }
    for (size_t block = 0; block < longest; block++) {
        for (int lane = 0; lane < count; lane++) {
            from[lane] = block_of(&lanes[lane], block);
        }
        digest_block(state, from);
        for (int lane = 0; lane < count; lane++) {
            for (int part = 0; part < PARTS && block + 1 == lanes[lane].all; part++) {
                sums[lane][part] = state[lane / WIDTH][part][lane % WIDTH];
            }
        }
    }
}

/* Into `found`, from `first` on, as many as there are lanes. */
static int digest_some(PyObject *texts, Py_ssize_t first, PyObject *found) {
    uint32_t sums[LANES][PARTS];
    Py_ssize_t left = PyList_GET_SIZE(texts) - first;
    int count = left < LANES ? (int)left : LANES;
    digest(texts, first, count, sums);
    for (int lane = 0; lane < count; lane++) {
        PyObject *sum = PyBytes_FromStringAndSize((const char *)sums[lane], sizeof sums[lane]);
        if (sum == NULL) {
            return -1;
        }
        PyList_SET_ITEM(found, first + lane, sum);
    }
    return 0;
}

/* 1: do it here; 0: not worth it; -1: these are no texts. */
static int is_worth_it(PyObject *texts) {
    size_t longest = 0, all = 0;
    int are_bytes = PyList_Check(texts);
    for (Py_ssize_t n = 0; are_bytes && n < PyList_GET_SIZE(texts); n++) {
        PyObject *text = PyList_GET_ITEM(texts, n);
        size_t blocks = PyBytes_Check(text) ? (size_t)PyBytes_GET_SIZE(text) / BLOCK + 1 : 0;
        are_bytes = blocks > 0;
        longest = blocks > longest ? blocks : longest;
        all += blocks;
    }
    if (!are_bytes) {
        PyErr_SetString(PyExc_TypeError, "sums() takes a list of bytes");
        return -1;
    }
    return all > 0 && all >= WORTH_IT * longest;
}

/* The interpreter's lock is kept: nobody else may change the list meanwhile. */
static PyObject *sums(PyObject *Py_UNUSED(module), PyObject *texts) {
    int is_worth = is_worth_it(texts);
    PyObject *found;
    if (is_worth <= 0) {
        return is_worth < 0 ? NULL : Py_NewRef(Py_None);
    }
    found = PyList_New(PyList_GET_SIZE(texts));
    for (Py_ssize_t first = 0; found != NULL && first < PyList_GET_SIZE(texts); first += LANES) {
        if (digest_some(texts, first, found) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

static PyMethodDef FUNCTIONS[] = {{"sums", sums, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_md5", NULL, 0, FUNCTIONS, NULL, NULL, NULL, NULL};
#endif

PyMODINIT_FUNC PyInit__md5(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2")) {
        return PyModule_Create(&MODULE);
    }
#endif
    PyErr_SetString(PyExc_ImportError, "needs a processor of x86-64 with AVX2");
    return NULL;
}
