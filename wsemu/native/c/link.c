/* The linker of the driver (`cuLink*`): PTX files are kept, and linked when the result is loaded. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_PTX = 1, INPUTS = 6 };
static const char SEPARATOR[] = "\n//wsemu:next\n"; /* also in images.py */

typedef struct Link { char *text; size_t bytes; } Link;

static inline void leave(int *unused) { (void)unused; unlock(); }
#define BEGIN __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard; { Result failed = begin_call(); if (failed) return failed; }
#define NEED(condition) do { if (!(condition)) return INVALID_VALUE; } while (0)

EXPORT Result cuLinkCreate_v2(unsigned count, int *options, void **values, void **state) {
    BEGIN;
    (void)count, (void)options, (void)values;
    NEED(state);
    *state = calloc(1, sizeof(Link));
    add_handle(*state, LINK);
    return SUCCESS;
}
ALIAS(cuLinkCreate, cuLinkCreate_v2);

static Result add_text(Link *link, const char *text, size_t bytes) {
    bytes = strnlen(text, bytes);
    char *all = realloc(link->text, link->bytes + sizeof SEPARATOR + bytes + 1);
    if (!all) return OUT_OF_MEMORY;
    link->text = all;
    if (link->bytes) {
        memcpy(all + link->bytes, SEPARATOR, sizeof SEPARATOR - 1);
        link->bytes += sizeof SEPARATOR - 1;
    }
    memcpy(all + link->bytes, text, bytes);
    link->bytes += bytes;
    all[link->bytes] = 0;
    return SUCCESS;
}

EXPORT Result cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *name, unsigned count, int *options, void **values) {
    BEGIN;
    (void)name, (void)count, (void)options, (void)values;
    if (!has_handle(state, LINK)) return INVALID_HANDLE;
    NEED(data && bytes && type >= 0 && type < INPUTS);
    return type == INPUT_PTX ? add_text(state, data, bytes) : unsupported("cuLinkAddData of what is not PTX");
}
ALIAS(cuLinkAddData, cuLinkAddData_v2);

EXPORT Result cuLinkAddFile_v2(void *state, int type, const char *path, unsigned count, int *options, void **values) {
    BEGIN;
    (void)count, (void)options, (void)values;
    if (!has_handle(state, LINK)) return INVALID_HANDLE;
    NEED(path && type >= 0 && type < INPUTS);
    FILE *file = fopen(path, "rb");
    if (!file) return FILE_NOT_FOUND;
    if (type != INPUT_PTX) { fclose(file); return unsupported("cuLinkAddFile of what is not PTX"); }
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = calloc(1, bytes > 0 ? (size_t)bytes + 1 : 1);
    size_t done = bytes > 0 ? fread(text, 1, (size_t)bytes, file) : 0;
    fclose(file);
    Result result = done ? add_text(state, text, done) : INVALID_IMAGE;
    free(text);
    return result;
}
ALIAS(cuLinkAddFile, cuLinkAddFile_v2);

EXPORT Result cuLinkComplete(void *state, void **code, size_t *bytes) {
    BEGIN;
    if (!has_handle(state, LINK)) return INVALID_HANDLE;
    NEED(code);
    Link *link = state;
    if (!link->bytes) return INVALID_IMAGE;
    *code = link->text;
    if (bytes) *bytes = link->bytes + 1;
    return SUCCESS;
}

EXPORT Result cuLinkDestroy(void *state) {
    BEGIN;
    if (!has_handle(state, LINK)) return INVALID_HANDLE;
    remove_handle(state);
    free(((Link *)state)->text);
    free(state);
    return SUCCESS;
}
