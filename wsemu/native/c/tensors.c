/* Memory of torch's CPU tensors in memory that host and device share, while a thread asks for it. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WITH_HOST, WRITTEN, UNWRITTEN };
static __thread int placing; /* where new memory of this thread goes */

EXPORT int wsemu_place_tensors(int where) {
    int before = placing;
    placing = where;
    return before;
}

static void *take(size_t bytes) {
    Address address = 0;
    if (connect_server()) return NULL; /* whatever launches have left the device with */
    lock();
    Result result = allocate_memory(&address, bytes ? bytes : 1, placing == UNWRITTEN ? BLANK : MANAGED);
    unlock();
    return result ? NULL : (void *)address;
}

static int take_aligned(void **memory, size_t alignment, size_t bytes) {
    void *taken = placing && alignment <= 256 ? take(bytes) : NULL;
    if (!taken) return posix_memalign(memory, alignment, bytes);
    *memory = taken;
    return 0;
}

static void *take_zeros(size_t count, size_t bytes) {
    void *taken = placing && (!bytes || count <= SIZE_MAX / bytes) ? take(count * bytes) : NULL;
    return taken ? memset(taken, 0, count * bytes) : calloc(count, bytes);
}

static void give(void *memory) {
    if (!is_shared((Address)memory)) { free(memory); return; }
    lock();
    send_action(DROP, NULL, NULL, 0, (Address)memory, 0, 0);
    free_memory((Address)memory, MANAGED);
    unlock();
}

/* Count the memory at an address as written: the host may have written it. */
EXPORT void wsemu_mark_tensor(const void *memory) {
    lock();
    Allocation *one = find_allocation((Address)memory);
    if (one && one->kind == BLANK) {
        one->kind = MANAGED;
        send_action(HOST_WRITE, NULL, NULL, one->address, 0, one->bytes, 0);
    }
    unlock();
}

/* -- pinned memory: torch's CPU wheel has none, and rejects it before an operator runs ---------------------------- */
typedef void *Creator(void *self, void *args, void *kwargs);
typedef struct { const char *name; Creator *function; int flags; } Definition; /* the begin of Python's PyMethodDef */
enum { MOST = 40, WITH_KEYWORDS = 3, STATIC = 0x20 }; /* flags: METH_VARARGS | METH_KEYWORDS; METH_STATIC */
static Creator *creating[MOST];

static void *create_on_host(Creator *create, void *self, void *args, void *kwargs) {
    static void *(*find)(void *, const char *), *(*copy)(void *);
    static int (*erase)(void *, const char *);
    static void (*release)(void *), *is_true;
    if (!release) {
        find = (void *(*)(void *, const char *))dlsym(RTLD_DEFAULT, "PyDict_GetItemString");
        copy = (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyDict_Copy");
        is_true = dlsym(RTLD_DEFAULT, "_Py_TrueStruct");
        erase = (int (*)(void *, const char *))dlsym(RTLD_DEFAULT, "PyDict_DelItemString");
        release = (void (*)(void *))dlsym(RTLD_DEFAULT, "Py_DecRef");
    }
    void *value = kwargs ? find(kwargs, "pin_memory") : NULL;
    if (!value || value != is_true) return create(self, args, kwargs);
    void *others = copy(kwargs), *out;
    if (!others) return NULL;
    erase(others, "pin_memory");
    out = create(self, args, others);
    release(others);
    return out;
}

#define CREATE(N) static void *create_##N(void *s, void *args, void *kwargs) { return create_on_host(creating[N], s, args, kwargs); }
#define TEN(DO, N) DO(N##0) DO(N##1) DO(N##2) DO(N##3) DO(N##4) DO(N##5) DO(N##6) DO(N##7) DO(N##8) DO(N##9)
TEN(CREATE, ) TEN(CREATE, 1) TEN(CREATE, 2) TEN(CREATE, 3)
#define NAME(N) create_##N,
static Creator *const own_creating[MOST] = { TEN(NAME, ) TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3) };

/* Let a function of Python's, given by its definition, ignore its argument `pin_memory`. */
EXPORT void wsemu_ignore_pinning(Definition *method) {
    static int count;
    if (count == MOST || (method->flags & ~STATIC) != WITH_KEYWORDS) return;
    creating[count] = method->function;
    method->function = own_creating[count++];
}

/* -- functions that torch imports ---------------------------------------------------------------------------------- */
/* Return CUDA as an optional device type of C++: a number that names no type is a number of this device. */
static unsigned short name_accelerator(int is_checked) { return (void)is_checked, 1 << 8 | 1; }

typedef struct { const char *library, *function; void *own; } Import;
static const Import imports[] = {
    { "/libc10.so", "posix_memalign", (void *)take_aligned },
    { "/libc10.so", "calloc", (void *)take_zeros },
    { "/libc10.so", "free", (void *)give },
    { "/libtorch_python.so", "_ZN2at11accelerator14getAcceleratorEb", (void *)name_accelerator },
    { "/libtorch_python.so", "_ZN2at14getAcceleratorEb", (void *)name_accelerator },
};
enum { IMPORTS = sizeof imports / sizeof *imports };

static void *own_function(const char *library, const char *name) {
    for (int n = 0; n < IMPORTS; n++)
        if (strstr(library, imports[n].library) && !strcmp(name, imports[n].function)) return imports[n].own;
    return NULL;
}

static int has_imports(const char *library) {
    for (int n = 0; n < IMPORTS; n++)
        if (strstr(library, imports[n].library)) return 1;
    return 0;
}

static void set_imports(const ElfW(Rela) *entry, size_t bytes, const struct dl_phdr_info *object, const ElfW(Sym) *symbols, const char *names) {
    for (size_t n = 0; entry && n < bytes / sizeof *entry; n++) {
        void *own = own_function(object->dlpi_name, names + symbols[ELF64_R_SYM(entry[n].r_info)].st_name);
        unsigned kind = (unsigned)ELF64_R_TYPE(entry[n].r_info);
        if (!own || (kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT)) continue;
        size_t place = object->dlpi_addr + entry[n].r_offset, page = place & ~4095ull;
        if (!mprotect((void *)page, 4096, PROT_READ | PROT_WRITE)) *(void **)place = own;
    }
}

static int hook_object(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    if (!has_imports(object->dlpi_name)) return 0;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const ElfW(Rela) *plt = NULL, *other = NULL;
    size_t plt_bytes = 0, other_bytes = 0;
    for (int n = 0; n < object->dlpi_phnum; n++) {
        if (object->dlpi_phdr[n].p_type != PT_DYNAMIC) continue;
        for (const ElfW(Dyn) *entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[n].p_vaddr); entry->d_tag != DT_NULL; entry++) {
            size_t value = entry->d_un.d_ptr, place = value < object->dlpi_addr ? object->dlpi_addr + value : value;
            if (entry->d_tag == DT_SYMTAB) symbols = (const void *)place;
            else if (entry->d_tag == DT_STRTAB) names = (const void *)place;
            else if (entry->d_tag == DT_JMPREL) plt = (const void *)place;
            else if (entry->d_tag == DT_PLTRELSZ) plt_bytes = value;
            else if (entry->d_tag == DT_RELA) other = (const void *)place;
            else if (entry->d_tag == DT_RELASZ) other_bytes = value;
        }
    }
    if (!symbols || !names) return 0;
    set_imports(plt, plt_bytes, object, symbols, names);
    set_imports(other, other_bytes, object, symbols, names);
    *(int *)found = 1;
    return 0;
}

EXPORT int wsemu_hook_torch(void) { /* once its library is loaded */
    int found = 0;
    dl_iterate_phdr(hook_object, &found);
    return found;
}
