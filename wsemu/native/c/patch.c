/* What runs in a program before its own code: the runtime that is linked into it, or into a library that it opens, is
   replaced at its documented functions, by their names in the symbol table; and PTX is kept where a compiler inside the
   process makes machine code of it. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- replacement -- */

enum { JUMP = 14 };

static bool redirect(void *from, void *to) {
    size_t page = (size_t)from & ~4095ull, bytes = (size_t)from + JUMP - page;
    unsigned char jump[JUMP] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp [rip] */
    memcpy(jump + 6, &to, 8);
    if (mprotect((void *)page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC)) return false;
    memcpy(from, jump, JUMP);
    mprotect((void *)page, bytes, PROT_READ | PROT_EXEC);
    return true;
}

static void *replacement(const char *name) {
    bool known = !strncmp(name, "cuda", 4) || !strncmp(name, "__cuda", 6);
    if (!strncmp(name, "_cu", 3)) name++, known = true; /* CuTe DSL: `_cudaMalloc`, `_cuTensorMapEncodeTiled` */
    return known ? symbol_of(name) : NULL;
}

/* An object in memory, and the symbols in its file.  The loader reads no sections, so these may be damaged. */
typedef struct Symbols {
    const struct dl_phdr_info *object;
    const Elf64_Sym *rows;
    size_t count;
    const char *names; /* ends with a zero byte */
    size_t name_bytes;
} Symbols;

static bool has_part(size_t size, size_t offset, size_t bytes) { return offset <= size && bytes <= size - offset; }

/* Whether an object has code at an address, with room for a jump; pages are loaded whole. */
static bool has_code(const struct dl_phdr_info *object, const void *address) {
    for (int n = 0; n < object->dlpi_phnum; n++) {
        const Elf64_Phdr *part = &object->dlpi_phdr[n];
        size_t offset = (size_t)address - (object->dlpi_addr + part->p_vaddr), end = part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && part->p_flags & PF_X && has_part(part->p_memsz + (-end & 4095), offset, JUMP)) return true;
    }
    return false;
}

static const char *function_name(const Symbols *symbols, size_t n) {
    const Elf64_Sym *one = &symbols->rows[n];
    bool is_function = ELF64_ST_TYPE(one->st_info) == STT_FUNC && one->st_shndx && one->st_name < symbols->name_bytes;
    return is_function ? symbols->names + one->st_name : "";
}

/* Whether a function has room for a jump: in its own bytes, or with the padding up to the next multiple of 16. */
static bool has_room(const unsigned char *code, size_t bytes) {
    if (bytes >= JUMP) return true;
    if (!bytes || (size_t)code % 16) return false;
    for (size_t n = bytes; n < JUMP; n++)
        if (!memchr("\x90\xcc\x66\x2e\x0f\x1f\x84\x80\x40\x44", code[n], 10) && code[n]) return false;
    return true;
}

/* The function that one does nothing but jump to, unless that is an entry of a procedure linkage table. */
static void *jump_target(const struct dl_phdr_info *object, unsigned char *code, size_t bytes) {
    int32_t distance;
    if (bytes != 1 + sizeof distance || code[0] != 0xe9) return NULL;
    memcpy(&distance, code + 1, sizeof distance);
    unsigned char *target = code + bytes + distance;
    if (!has_code(object, target)) return NULL;
    const unsigned char *first = memcmp(target, "\xf3\x0f\x1e\xfa", 4) ? target : target + 4; /* after endbr64 */
    return *first == 0xff || *first == 0xf2 ? NULL : target;
}

/* -- the version of a runtime: functions about the edges of graphs have one parameter more from CUDA 13 on -- */

enum { NEW_EDGES = 13 };
static struct { size_t base; bool old; } linked[256]; /* objects that a runtime is linked into */
static unsigned linked_count;

static int needed_version(const struct link_map *map) {
    const char *names = NULL;
    for (const Elf64_Dyn *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_STRTAB) names = (const char *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr : entry->d_un.d_ptr);
    for (const Elf64_Dyn *entry = map->l_ld; names && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && !strncmp(names + entry->d_un.d_val, "libcudart.so.", 13)) return atoi(names + entry->d_un.d_val + 13);
    return 0;
}

/* Whether the code at an address was compiled for a runtime before CUDA 13, by what it is linked with. */
bool has_old_runtime(const void *caller) {
    Dl_info found;
    struct link_map *map = NULL;
    if (!dladdr1(caller, &found, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
    for (unsigned n = 0; n < linked_count; n++)
        if (linked[n].base == map->l_addr) return linked[n].old;
    int version = needed_version(map);
    return version && version < NEW_EDGES;
}

static void note_runtime(const Symbols *symbols) {
    bool found = false, old = true;
    for (size_t n = 0; n < symbols->count; n++) {
        const char *name = function_name(symbols, n);
        if (!strcmp(name, "cudaGraphGetEdges")) found = true;
        if (!strcmp(name, "cudaMemDiscardBatchAsync")) old = false; /* CUDA 13 has added it */
    }
    if (!found || linked_count == sizeof linked / sizeof *linked) return;
    linked[linked_count].base = symbols->object->dlpi_addr;
    linked[linked_count++].old = old;
}

static void patch_symbols(const Symbols *symbols) {
    note_runtime(symbols);
    for (size_t n = 0; n < symbols->count; n++) {
        const char *name = function_name(symbols, n);
        if (name[0] != 'c' && name[0] != '_') continue;
        void *to = replacement(name);
        void *from = (void *)(symbols->object->dlpi_addr + symbols->rows[n].st_value);
        size_t bytes = symbols->rows[n].st_size;
        if (!to || !has_code(symbols->object, from) || !has_room(from, bytes)) continue;
        void *inner = name[1] == 'c' && name[0] == '_' ? jump_target(symbols->object, from, bytes) : NULL; /* CuTe DSL also calls it itself */
        redirect(from, to);
        if (inner) redirect(inner, to);
    }
}

static void patch_table(const char *file, size_t size, const Elf64_Shdr *sections, size_t count, const Elf64_Shdr *table, const struct dl_phdr_info *object) {
    if (table->sh_link >= count || !has_part(size, table->sh_offset, table->sh_size)) return;
    const Elf64_Shdr *names = &sections[table->sh_link];
    if (!names->sh_size || !has_part(size, names->sh_offset, names->sh_size) || file[names->sh_offset + names->sh_size - 1]) return;
    const Elf64_Sym *rows = (const void *)(file + table->sh_offset);
    patch_symbols(&(Symbols){object, rows, table->sh_size / sizeof *rows, file + names->sh_offset, names->sh_size});
}

static void patch_file(const char *path, const struct dl_phdr_info *object) {
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    struct stat state;
    if (handle < 0) return;
    if (fstat(handle, &state) || state.st_size < (off_t)sizeof(Elf64_Ehdr)) { close(handle); return; }
    size_t size = (size_t)state.st_size;
    char *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, handle, 0);
    close(handle);
    if (file == MAP_FAILED) return;
    const Elf64_Ehdr *head = (const void *)file;
    size_t count = head->e_shnum;
    bool is_whole = head->e_shentsize == sizeof(Elf64_Shdr) && has_part(size, head->e_shoff, count * sizeof(Elf64_Shdr));
    if (!memcmp(file, ELFMAG, 4) && head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_shoff && is_whole) {
        const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
        bool has_all = false;
        for (size_t n = 0; n < count; n++) has_all = has_all || sections[n].sh_type == SHT_SYMTAB;
        for (size_t n = 0; n < count; n++)
            if (sections[n].sh_type == (has_all ? SHT_SYMTAB : SHT_DYNSYM)) patch_table(file, size, sections, count, &sections[n], object);
    }
    munmap(file, size);
}

static struct Object { size_t base, headers; bool is_loaded; } objects[4096]; /* that were patched */
static unsigned object_count;

static bool is_patched(size_t base, size_t headers) {
    for (unsigned n = 0; n < object_count; n++)
        if (objects[n].base == base && objects[n].headers == headers) return objects[n].is_loaded = true;
    if (object_count < sizeof objects / sizeof *objects) objects[object_count++] = (struct Object){base, headers, true};
    return false;
}

/* Forget what was unloaded: another library may have got its address. */
static void drop_unloaded(void) {
    unsigned kept = 0;
    for (unsigned n = 0; n < object_count; n++) {
        struct Object one = objects[n];
        for (unsigned k = 0; k < linked_count && !one.is_loaded; k++)
            if (linked[k].base == one.base) linked[k--] = linked[--linked_count];
        if (one.is_loaded) objects[kept++] = one;
    }
    object_count = kept;
}

static int patch_object(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    (void)data;
    Dl_info own;
    dladdr((void *)patch_object, &own);
    if (is_patched(object->dlpi_addr, (size_t)object->dlpi_phdr)) return 0;
    const char *name = object->dlpi_name;
    if (!strcmp(name, own.dli_fname) || !strncmp(name, "/lib", 4) || !strncmp(name, "/usr/lib", 8) || strstr(name, "libcudart.so") || strstr(name, "vdso")) return 0;
    patch_file(*name ? name : "/proc/self/exe", object);
    return 0;
}

EXPORT void wsemu_patch(void) { /* also called by the audit library: before constructors of what was opened run, and after an unloading */
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    for (unsigned n = 0; n < object_count; n++) objects[n].is_loaded = false;
    dl_iterate_phdr(patch_object, NULL);
    drop_unloaded();
    pthread_mutex_unlock(&mutex);
}

EXPORT int wsemu_redirect(void *from, const char *name) { /* for functions that only Cython knows the entry of */
    void *to = replacement(name);
    return to && redirect(from, to);
}

/* The first of all constructors (`-z initfirst`), because those of other libraries register kernels: there is no
   `getenv` yet. */
__attribute__((constructor)) static void prepare(int count, char **words, char **environment) {
    (void)count;
    (void)words;
    for (; environment && *environment; environment++)
        if (!strncmp(*environment, "WSEMU_SERVER=", 13)) wsemu_patch();
}

/* -- PTX that compilers inside the process have -- */

static void *(*real_dlsym)(void *, const char *);

static void keep_ptx(const char *code, size_t bytes, const char *ptx) {
    const char *folder = getenv("WSEMU_KEPT_PTX");
    if (!folder) return;
    uint64_t hash = 1469598103934665603ull;
    for (size_t n = 0; n < bytes; n++) hash = (hash ^ (unsigned char)code[n]) * 1099511628211ull;
    char path[4096];
    snprintf(path, sizeof path, "%s/%016llx_%zu.ptx", folder, (unsigned long long)hash, bytes);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(ptx, file);
    fclose(file);
}

typedef int (*Get)(void *, char *);
typedef int (*GetSize)(void *, size_t *);

static struct { Get code, ptx; GetSize code_size, ptx_size; } nvrtc;

static int nvrtc_code(void *program, char *out) {
    int result = nvrtc.code(program, out);
    size_t bytes = 0, length = 0;
    if (result || !nvrtc.ptx || nvrtc.code_size(program, &bytes) || nvrtc.ptx_size(program, &length)) return result;
    char *text = calloc(1, length + 1);
    if (!nvrtc.ptx(program, text)) keep_ptx(out, bytes, text);
    free(text);
    return result;
}

typedef struct Input { int kind; char *data, *name; size_t bytes; struct Input *next; } Input;
typedef struct Link { unsigned count; char **options; Input *first, *last; } Link;
static Table links;
static struct {
    int (*create)(void **, unsigned, const char **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*add_file)(void *, int, const char *);
    int (*complete)(void *);
    Get code, ptx;
    GetSize code_size, ptx_size;
} nvlink;
enum { LINK_PTX = 2, LINK_LTO = 3, LINK_FAT = 4, LINK_LIBRARY = 6, LINK_ANY = 10 };

static int nvlink_create(void **handle, unsigned count, const char **options) {
    int result = nvlink.create(handle, count, options);
    if (result) return result;
    Link *link = calloc(1, sizeof *link);
    link->count = count;
    link->options = calloc(count + 2, sizeof(char *));
    for (unsigned n = 0; n < count; n++) link->options[n] = strdup(options[n]);
    lock();
    table_put(&links, *handle, link);
    unlock();
    return 0;
}

static void note_input(void *handle, int kind, const void *data, size_t bytes, const char *name) {
    lock();
    Link *link = table_get(&links, handle);
    unlock();
    if (!link) return;
    Input *input = calloc(1, sizeof *input);
    input->kind = kind;
    input->name = strdup(name ? name : "");
    input->bytes = bytes;
    if (data) {
        input->data = calloc(1, bytes + 1);
        memcpy(input->data, data, bytes);
    }
    if (link->last) link->last->next = input; else link->first = input;
    link->last = input;
}

static int nvlink_add(void *handle, int kind, const void *data, size_t bytes, const char *name) {
    note_input(handle, kind, data, bytes, name);
    return nvlink.add(handle, kind, data, bytes, name);
}

/* Note a file by its name, and PTX by its text, which becomes part of the result. */
static void note_file(void *handle, int kind, const char *name) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = kind == LINK_PTX && name ? fopen(name, "r") : NULL;
    if (file) {
        FILE *copy = open_memstream(&text, &bytes);
        for (int next; copy && (next = fgetc(file)) != EOF;) fputc(next, copy);
        if (copy) fclose(copy);
        fclose(file);
    }
    note_input(handle, kind, text, bytes, name);
    free(text);
}

static int nvlink_add_file(void *handle, int kind, const char *name) {
    note_file(handle, kind, name);
    return nvlink.add_file(handle, kind, name);
}

/* Link the LTO code once more, with PTX as the result: it calls what is in PTX or in the toolkit's own libraries. */
static char *linked_ptx(Link *link) {
    const char *options[link->count + 2];
    unsigned count = 0;
    bool lto = false;
    for (unsigned n = 0; n < link->count; n++) {
        options[count++] = link->options[n];
        lto = lto || !strcmp(link->options[n], "-lto");
    }
    options[count++] = "-ptx";
    if (!lto) options[count++] = "-lto";
    void *handle;
    if (nvlink.create(&handle, count, options)) return NULL;
    for (Input *input = link->first; input; input = input->next)
        if (input->kind == LINK_PTX || input->kind == LINK_LIBRARY) continue;
        else if (input->data ? nvlink.add(handle, input->kind, input->data, input->bytes, input->name) : nvlink.add_file(handle, input->kind, input->name)) return NULL;
    size_t length = 0;
    if (nvlink.complete(handle) || nvlink.ptx_size(handle, &length)) return NULL;
    char *text = calloc(1, length + 1);
    if (nvlink.ptx(handle, text)) { free(text); return NULL; }
    return text;
}

static int nvlink_code(void *handle, char *out) {
    int result = nvlink.code(handle, out);
    size_t bytes = 0, length = 1;
    lock();
    Link *link = table_get(&links, handle);
    unlock();
    if (result || !link || nvlink.code_size(handle, &bytes)) return result;
    bool all_ptx = true, lto = false;
    for (Input *input = link->first; input; input = input->next) {
        all_ptx = all_ptx && (input->kind == LINK_LIBRARY || (input->kind == LINK_PTX && input->data));
        lto = lto || input->kind == LINK_LTO || input->kind == LINK_FAT || input->kind == LINK_ANY;
        length += input->bytes + 32;
    }
    char *text = lto && nvlink.ptx ? linked_ptx(link) : all_ptx ? calloc(1, 1) : NULL;
    if (text) {
        text = realloc(text, strlen(text) + length);
        for (Input *input = link->first; input; input = input->next) {
            if (input->kind != LINK_PTX || !input->data) continue;
            if (*text) strcat(text, "\n//wsemu:next\n");
            strcat(text, input->data);
        }
    }
    if (text) keep_ptx(out, bytes, text);
    free(text);
    return result;
}

static void find_dlsym(void) {
    if (!real_dlsym) real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void find_nvrtc(void *handle, void *code) {
    nvrtc.code = (Get)code;
    nvrtc.ptx = (Get)real_dlsym(handle, "nvrtcGetPTX");
    nvrtc.code_size = (GetSize)real_dlsym(handle, "nvrtcGetCUBINSize");
    nvrtc.ptx_size = (GetSize)real_dlsym(handle, "nvrtcGetPTXSize");
}

/* In place of that of a program that is linked with NVRTC. */
EXPORT int nvrtcGetCUBIN(void *program, char *out) {
    find_dlsym();
    void *code = real_dlsym(RTLD_NEXT, "nvrtcGetCUBIN");
    if (!code) return 7; /* internal error */
    find_nvrtc(RTLD_NEXT, code);
    return nvrtc_code(program, out);
}

EXPORT void *dlsym(void *handle, const char *name) {
    find_dlsym();
    void *found = real_dlsym(handle, name);
    if (!found || name[0] != 'n' || name[1] != 'v' || !getenv("WSEMU_KEPT_PTX")) return found;
    if (!strcmp(name, "nvrtcGetCUBIN")) {
        find_nvrtc(handle, found);
        return (void *)nvrtc_code;
    }
    if (!strcmp(name, "nvJitLinkCreate")) {
        nvlink.create = (int (*)(void **, unsigned, const char **))found;
        nvlink.complete = (int (*)(void *))real_dlsym(handle, "nvJitLinkComplete");
        nvlink.ptx = (Get)real_dlsym(handle, "nvJitLinkGetLinkedPtx");
        nvlink.ptx_size = (GetSize)real_dlsym(handle, "nvJitLinkGetLinkedPtxSize");
        nvlink.code_size = (GetSize)real_dlsym(handle, "nvJitLinkGetLinkedCubinSize");
        return (void *)nvlink_create;
    }
    if (!strcmp(name, "nvJitLinkAddData")) { nvlink.add = (int (*)(void *, int, const void *, size_t, const char *))found; return (void *)nvlink_add; }
    if (!strcmp(name, "nvJitLinkAddFile")) { nvlink.add_file = (int (*)(void *, int, const char *))found; return (void *)nvlink_add_file; }
    if (!strcmp(name, "nvJitLinkGetLinkedCubin")) { nvlink.code = (Get)found; return (void *)nvlink_code; }
    return found;
}
