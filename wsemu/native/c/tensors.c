/* Memory of torch's CPU tensors in memory that host and device share, while a thread asks for it. */
#define _GNU_SOURCE
#include "state.h"

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

static void *own_function(const char *name) {
    if (!strcmp(name, "posix_memalign")) return (void *)take_aligned;
    if (!strcmp(name, "calloc")) return (void *)take_zeros;
    return !strcmp(name, "free") ? (void *)give : NULL;
}

static void set_imports(const ElfW(Rela) *entry, size_t bytes, size_t base, const ElfW(Sym) *symbols, const char *names) {
    for (size_t n = 0; entry && n < bytes / sizeof *entry; n++) {
        void *own = own_function(names + symbols[ELF64_R_SYM(entry[n].r_info)].st_name);
        unsigned kind = (unsigned)ELF64_R_TYPE(entry[n].r_info);
        if (!own || (kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT)) continue;
        size_t place = base + entry[n].r_offset, page = place & ~4095ull;
        if (!mprotect((void *)page, 4096, PROT_READ | PROT_WRITE)) *(void **)place = own;
    }
}

static int hook_object(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    if (!strstr(object->dlpi_name, "/libc10.so")) return 0;
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
    set_imports(plt, plt_bytes, object->dlpi_addr, symbols, names);
    set_imports(other, other_bytes, object->dlpi_addr, symbols, names);
    *(int *)found = 1;
    return 0;
}

EXPORT int wsemu_hook_torch(void) { /* once its library is loaded */
    int found = 0;
    dl_iterate_phdr(hook_object, &found);
    return found;
}
