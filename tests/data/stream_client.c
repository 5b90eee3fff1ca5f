/* A program on the driver API, for tests: two streams, and what its second argument names. */
#include <stdio.h>
#include <string.h>
typedef unsigned long long Address;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(Address *, size_t), cuMemAllocAsync(Address *, size_t, void *), cuMemFreeAsync(Address, void *), cuMemsetD32_v2(Address, unsigned, size_t), cuMemsetD32Async(Address, unsigned, size_t, void *);
int cuMemHostAlloc(void **, size_t, unsigned), cuMemcpyHtoDAsync_v2(Address, const void *, size_t, void *), cuMemcpyHtoD_v2(Address, const void *, size_t);
int cuStreamCreate(void **, unsigned), cuStreamSynchronize(void *), cuStreamWaitEvent(void *, void *, unsigned), cuStreamQuery(void *), cuEventCreate(void **, unsigned), cuEventRecord(void *, void *), cuEventSynchronize(void *), cuCtxSynchronize(void);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchHostFunc(void *, void (*)(void *), void *);
static void *add;
static void call(void *data) {}
static void launch(Address x, void *stream) {
    void *arguments[] = {&x};
    cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}
int main(int count, char **words) {
    void *context, *module, *a, *b, *event, *pinned;
    Address x, y;
    if (count < 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuModuleLoad(&module, words[1])) return 9;
    const char *what = words[2];
    cuModuleGetFunction(&add, module, "add");
    cuMemAlloc_v2(&x, 256);
    cuMemHostAlloc(&pinned, 256, 0);
    memset(pinned, 0, 256);
    cuMemsetD32_v2(x, 0, 64);
    if (!strncmp(what, "first", 5)) { /* work before the first stream */
        cuCtxSynchronize();
        if (!strcmp(what, "first filled")) cuMemsetD32_v2(x, 0, 64);
        else launch(x, NULL);
        if (!strcmp(what, "first waited")) cuStreamSynchronize(NULL);
        if (!strcmp(what, "first recorded")) { cuEventCreate(&event, 0); cuEventRecord(event, NULL); launch(x + 128, NULL); }
        if (!strcmp(what, "first synchronized")) { /* the event is recorded again after the wait for it */
            cuEventCreate(&event, 0);
            cuEventRecord(event, NULL);
            cuEventSynchronize(event);
            launch(x + 128, NULL);
            cuEventRecord(event, NULL);
        }
        if (!strcmp(what, "first per thread")) launch(x, (void *)2);
        cuStreamCreate(&a, strcmp(what, "first blocking") != 0);
        if (!strcmp(what, "first recorded")) cuStreamWaitEvent(a, event, 0);
        launch(strcmp(what, "first disjoint") ? x : x + 128, a);
        return 0;
    }
    cuStreamCreate(&a, !strcmp(what, "nonblocking"));
    cuStreamCreate(&b, 0);
    cuEventCreate(&event, 0);
    cuCtxSynchronize();
    if (!strcmp(what, "uploaded")) { /* pageable memory: the call waits, as drivers do it */
        static int zeros[64];
        cuStreamCreate(&a, 1);
        cuMemcpyHtoD_v2(x, zeros, 256);
    }
    launch(x, a);
    if (!strcmp(what, "race")) launch(x, b);
    else if (!strcmp(what, "disjoint")) launch(x + 128, b);
    else if (!strcmp(what, "synchronized")) { cuStreamSynchronize(a); launch(x, b); }
    else if (!strcmp(what, "queried")) { cuStreamQuery(a); launch(x, b); }
    else if (!strcmp(what, "waited")) { cuEventRecord(event, a); cuStreamWaitEvent(b, event, 0); launch(x, b); }
    else if (!strcmp(what, "early")) { cuEventRecord(event, b); cuStreamWaitEvent(b, event, 0); launch(x, b); }
    else if (!strcmp(what, "legacy") || !strcmp(what, "nonblocking")) launch(x, NULL);
    else if (!strcmp(what, "copied")) cuMemcpyHtoDAsync_v2(x, pinned, 256, b);
    else if (!strcmp(what, "filled")) cuMemsetD32Async(x, 1, 32, b);
    else if (!strcmp(what, "met") || !strcmp(what, "met in order")) { /* CTA 0 waits for CTA 1, which a run in order starts later */
        void *meet = NULL, *arguments[] = {&x};
        cuModuleGetFunction(&meet, module, "meet");
        cuMemsetD32Async(x, 0, 32, a);
        cuStreamSynchronize(a);
        cuLaunchKernel(meet, 2, 1, 1, 1, 1, 1, 0, a, arguments, NULL);
        if (!strcmp(what, "met in order")) cuStreamSynchronize(a);
        cuMemsetD32Async(x + 8, 1, 1, b);
    }
    else if (!strcmp(what, "called")) { cuLaunchHostFunc(a, call, NULL); launch(x, b); } /* call may wake the thread that issues it */
    else if (!strcmp(what, "freed") || !strcmp(what, "kept")) {
        cuMemAllocAsync(&y, 128, a);
        cuMemsetD32Async(y, 0, 32, a);
        cuStreamSynchronize(a);
        launch(y, b);
        cuMemFreeAsync(y, !strcmp(what, "kept") ? b : a);
    }
    return 0;
}
