/* OpenSSL's libcrypto as Python's own modules have loaded it. Its functions are looked up by name, so that its headers are not
 * needed; those that are used here have been the same since version 1.1.0.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    const char *name;
    void *place; /* of a pointer to it */
} Wanted;

/* -1: there is no such library, or it does not have all of them. */
static int find_openssl(const Wanted *wanted, size_t count) {
    static const char *const NAMES[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
    void *found = NULL;
    for (size_t n = 0; found == NULL && n < sizeof NAMES / sizeof *NAMES; n++) {
        found = dlopen(NAMES[n], RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t n = 0; found != NULL && n < count; n++) {
        void *function = dlsym(found, wanted[n].name);
        if (function == NULL) {
            return -1;
        }
        memcpy(wanted[n].place, &function, sizeof function);
    }
    return found == NULL ? -1 : 0;
}
