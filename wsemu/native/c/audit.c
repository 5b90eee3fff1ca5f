/* An audit library (rtld-audit(7)): has a program, its libraries and what it opens patched before constructors run, and
   reports what it closes. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static void (*patch)(void);
static struct link_map *driver;
static bool started, changed;

/* The function `wsemu_patch` of the driver, by its dynamic section. */
static void *find_patch(const struct link_map *map) {
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL;
    for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        size_t value = entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB) symbols = (const void *)value;
        else if (entry->d_tag == DT_STRTAB) names = (const char *)value;
        else if (entry->d_tag == DT_HASH) hash = (const void *)value;
    }
    for (uint32_t n = 0; symbols && names && hash && n < hash[1]; n++)
        if (symbols[n].st_shndx && !strcmp(names + symbols[n].st_name, "wsemu_patch")) return (void *)(map->l_addr + symbols[n].st_value);
    return NULL;
}

EXPORT unsigned la_version(unsigned version) { return version; }

EXPORT unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    (void)cookie;
    if (space != LM_ID_BASE) return 0;
    changed = true;
    if (!driver && strstr(map->l_name, "/wsemu_driver/libcuda.so.1")) driver = map;
    return 0;
}

static void patch_changed(void) {
    if (!started || !changed || !driver) return;
    if (!patch) patch = (void (*)(void))(uintptr_t)find_patch(driver);
    changed = false;
    if (patch) patch();
}

EXPORT unsigned la_objclose(uintptr_t *cookie) {
    (void)cookie;
    changed = true;
    return 0;
}

EXPORT void la_preinit(uintptr_t *cookie) {
    (void)cookie;
    started = true;
    patch_changed();
}

EXPORT void la_activity(uintptr_t *cookie, unsigned flag) {
    (void)cookie;
    if (flag == LA_ACT_CONSISTENT) patch_changed();
}
