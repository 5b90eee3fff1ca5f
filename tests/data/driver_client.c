/* A program on the driver API, for tests: loads PTX from a file and does what its second argument names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long Address;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleUnload(void *);
int cuModuleGetFunction(void **, void *, const char *), cuModuleGetGlobal_v2(Address *, size_t *, void *, const char *);
int cuMemAlloc_v2(Address *, size_t), cuMemFree_v2(Address), cuMemAllocManaged(Address *, size_t, unsigned), cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostGetDevicePointer_v2(Address *, void *, unsigned), cuMemcpyHtoD_v2(Address, const void *, size_t), cuMemcpyDtoH_v2(void *, Address, size_t), cuMemsetD32_v2(Address, unsigned, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), cuCtxSynchronize(void), cuStreamDestroy_v2(void *);
int cuLinkCreate_v2(unsigned, int *, void **, void **), cuLinkAddData_v2(void *, int, void *, size_t, const char *, unsigned, int *, void **), cuLinkComplete(void *, void **, size_t *), cuLinkDestroy(void *), cuModuleLoadData(void **, const void *);
static void *module, *add, *read_table, *scaled;
static int launch(void *function, unsigned threads, void **arguments) { return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL); }
static int sums(Address x) {
    int data[32], sum = 0;
    for (int n = 0; n < 32; n++) data[n] = n;
    int error = cuMemcpyHtoD_v2(x, data, sizeof data);
    void *arguments[] = {&x};
    if (!error) error = launch(add, 32, arguments);
    if (!error) error = cuMemcpyDtoH_v2(data, x, sizeof data);
    for (int n = 0; n < 32; n++) sum += data[n];
    printf("%d %d\n", error, sum);
    return error;
}
int main(int count, char **words) {
    void *context;
    if (count < 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 9;
    printf("load %d\n", cuModuleLoad(&module, words[1]));
    cuModuleGetFunction(&add, module, "add");
    cuModuleGetFunction(&read_table, module, "read_table");
    cuModuleGetFunction(&scaled, module, "scaled");
    Address x = 0, y = 0;
    cuMemAlloc_v2(&x, 128);
    const char *what = words[2];
    if (!strcmp(what, "sums")) return sums(x);
    if (!strcmp(what, "managed")) {
        cuMemAllocManaged(&x, 128, 1);
        for (int n = 0; n < 32; n++) ((int *)x)[n] = n;
        void *arguments[] = {&x};
        int error = launch(add, 32, arguments);
        printf("%d %d\n", error, ((int *)x)[31]);
    } else if (!strcmp(what, "registered")) {
        int *own = malloc(128);
        for (int n = 0; n < 32; n++) own[n] = n;
        printf("%d ", cuMemHostRegister_v2(own, 128, 0));
        printf("%d\n", cuMemHostGetDevicePointer_v2(&x, own, 0));
        void *arguments[] = {&x};
        int error = launch(add, 32, arguments);
        printf("%d %d\n", error, own[31]);
    } else if (!strcmp(what, "table")) {
        Address entries[1] = {x};
        cuMemsetD32_v2(x, 5, 32);
        cuMemAlloc_v2(&y, 8);
        cuMemcpyHtoD_v2(y, entries, 8);
        void *arguments[] = {&y};
        int error = launch(read_table, 32, arguments), first = 0;
        cuMemcpyDtoH_v2(&first, x, 4);
        printf("%d %d\n", error, first);
    } else if (!strcmp(what, "constant")) {
        int factor = 3, first = 0;
        size_t bytes = 0;
        cuModuleGetGlobal_v2(&y, &bytes, module, "factor");
        cuMemcpyHtoD_v2(y, &factor, 4);
        void *arguments[] = {&x};
        int error = launch(scaled, 32, arguments);
        cuMemcpyDtoH_v2(&first, x + 28, 4);
        printf("%d %zu %d\n", error, bytes, first);
    } else if (!strcmp(what, "freed")) {
        cuMemFree_v2(x);
        void *arguments[] = {&x};
        printf("%d ", launch(add, 32, arguments));
        printf("%d\n", cuCtxSynchronize());
    } else if (!strcmp(what, "unwritten")) {
        void *arguments[] = {&x};
        printf("%d\n", launch(add, 32, arguments));
    } else if (!strcmp(what, "race")) {
        void *arguments[] = {&x};
        void *function = NULL;
        cuModuleGetFunction(&function, module, "count");
        printf("%d ", launch(function, 64, arguments));
        printf("%d\n", cuCtxSynchronize());
    } else if (!strcmp(what, "errors")) {
        int data[64] = {0};
        void *arguments[] = {&x}, *missing[] = {NULL};
        printf("%d ", cuMemFree_v2(x + 4));
        printf("%d ", cuMemcpyHtoD_v2(x, data, 256));
        printf("%d ", cuMemcpyHtoD_v2(x, (void *)8, 4));
        printf("%d ", cuMemcpyDtoH_v2((void *)8, x, 4));
        printf("%d ", launch(add, 2048, arguments));
        printf("%d ", launch(add, 32, missing));
        printf("%d ", launch((void *)data, 32, arguments));
        printf("%d ", cuStreamDestroy_v2(data));
        printf("%d ", cuMemFree_v2(x));
        printf("%d\n", cuMemFree_v2(x));
        cuMemAlloc_v2(&x, 128);
        return sums(x);
    } else if (!strcmp(what, "many")) { /* the last of twelve launches reads what nothing has written */
        Address entries[1] = {x};
        cuMemsetD32_v2(x, 5, 32);
        cuMemAlloc_v2(&y, 8);
        cuMemcpyHtoD_v2(y, entries, 8);
        for (int n = 0; n < 11; n++) {
            void *table[] = {&y}, *array[] = {&x};
            launch(n % 2 ? read_table : add, 32, n % 2 ? table : array);
        }
        cuMemAlloc_v2(&x, 128);
        void *arguments[] = {&x};
        printf("%d\n", launch(add, 32, arguments));
    } else if (!strcmp(what, "say") || !strcmp(what, "claim")) {
        void *function = NULL;
        cuModuleGetFunction(&function, module, what);
        printf("%d ", launch(function, 2, NULL));
        printf("%d\n", cuCtxSynchronize());
    } else if (!strcmp(what, "spin")) {
        void *function = NULL;
        cuModuleGetFunction(&function, module, what);
        fprintf(stderr, "spinning\n");
        printf("%d\n", launch(function, 32, NULL));
    } else if (!strcmp(what, "meet")) { /* CTA 0 waits for CTA 1, which a run in order starts later */
        void *arguments[] = {&x}, *function = NULL;
        int words[3] = {0};
        cuMemsetD32_v2(x, 0, 32);
        cuModuleGetFunction(&function, module, what);
        printf("%d ", cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
        printf("%d ", cuMemcpyDtoH_v2(words, x, 12));
        printf("%d %d %d\n", words[0], words[1], words[2]);
    } else if (!strcmp(what, "link")) { /* one file declares what the other one defines */
        static char calls[] = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .func (.param .b32 r) twice(.param .b32 v);\n"
            ".visible .entry main_twice(.param .u64 x) {\n.reg .u64 %a; .reg .b32 %r<3>;\nld.param.u64 %a, [x];\nmov.u32 %r1, 21;\n"
            "{ .param .b32 p; .param .b32 b; st.param.b32 [p], %r1; call.uni (b), twice, (p); ld.param.b32 %r2, [b]; }\nst.global.u32 [%a], %r2;\nret;\n}\n";
        static char defines[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .func (.param .b32 r) twice(.param .b32 v) {\n"
            ".reg .b32 %r<3>;\nld.param.b32 %r1, [v];\nadd.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n";
        void *state = NULL, *code = NULL, *linked = NULL, *function = NULL;
        size_t bytes = 0;
        int first = 0;
        printf("%d ", cuLinkCreate_v2(0, NULL, NULL, &state));
        printf("%d ", cuLinkAddData_v2(state, 1, calls, sizeof calls, "calls", 0, NULL, NULL));
        printf("%d ", cuLinkAddData_v2(state, 1, defines, sizeof defines, "defines", 0, NULL, NULL));
        printf("%d ", cuLinkComplete(state, &code, &bytes));
        printf("%d ", cuModuleLoadData(&linked, code));
        printf("%d ", cuLinkDestroy(state));
        printf("%d ", cuLinkDestroy(state));
        cuModuleGetFunction(&function, linked, "main_twice");
        void *arguments[] = {&x};
        printf("%d ", launch(function, 1, arguments));
        cuMemcpyDtoH_v2(&first, x, 4);
        printf("%d\n", first);
    } else if (!strcmp(what, "crash")) {
        sums(x);
        fflush(stdout);
        *(volatile int *)x = 1; /* device memory is none of the host's */
    }
    return 0;
}
