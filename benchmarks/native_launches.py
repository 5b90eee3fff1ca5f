"""Measure the cost of a program's launch in addition to its check, and the time of many equal launches.

    python benchmarks/native_launches.py --launches 10000

A C program on the driver launches one small kernel this number of times: in the default stream, in a stream of its own,
in two streams alternately, and in two streams with an event from each launch to the next, on an array of both.  The
overhead is the time of the loop in the program, less the seconds of the checks in the reports.  The last line compares
the CPU time for two streams with that for one, in the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from wsemu.launch import hooks
from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler
from wsemu.native.server import run_program
from wsemu.native.session import Watch

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef unsigned long long Address;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(Address *, size_t), cuMemsetD32_v2(Address, unsigned, size_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void *, void **, void **);
int cuCtxSynchronize(void), cuStreamCreate(void **, unsigned);
int cuEventCreate(void **, unsigned), cuEventRecord(void *, void *), cuStreamWaitEvent(void *, void *, unsigned);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int count, char **words) {
    void *context, *module, *add, *streams[2] = {NULL, NULL}, *event = NULL;
    Address x[2];
    int several = atoi(words[3]), passed = several == 3;
    cuInit(0); cuDevicePrimaryCtxRetain(&context, 0); cuCtxSetCurrent(context);
    cuModuleLoad(&module, words[1]); cuModuleGetFunction(&add, module, "add");
    for (int n = 0; n < 2; n++) { cuMemAlloc_v2(&x[n], 128); cuMemsetD32_v2(x[n], 0, 32); }
    if (several) cuStreamCreate(&streams[0], 0);
    if (several > 1) cuStreamCreate(&streams[1], 0); else streams[1] = streams[0];
    if (passed) cuEventCreate(&event, 2);
    void *arguments[2][1] = {{&x[0]}, {&x[!passed]}};
    cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, streams[0], arguments[0], NULL);
    cuCtxSynchronize();
    double start = now();
    for (int n = 0; n < atoi(words[2]); n++) {
        if (passed && n) cuStreamWaitEvent(streams[n & 1], event, 0);
        cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, streams[n & 1], arguments[n & 1], NULL);
        if (passed) cuEventRecord(event, streams[n & 1]);
    }
    cuCtxSynchronize();
    FILE *out = fopen(words[4], "w");
    fprintf(out, "%f\n", now() - start);
    fclose(out);
    return 0;
}
"""
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 x) {
    .reg .b64 %a<4>; .reg .b32 %r<4>;
    ld.param.u64 %a1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a3, %a1, %a2;
    ld.global.u32 %r2, [%a3];
    add.u32 %r3, %r2, 1;
    st.global.u32 [%a3], %r3;
    ret;
}
"""


WHERE = ("in the default stream", "in a stream", "in two streams", "in two streams, with events")


def measure(launches: int, where: int) -> tuple[float, float]:
    """Return the seconds of the loop of launches, and those of the checks of these launches; `where` is an index of
    `WHERE`."""
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, kernel, program, result = (folder / one for one in ("client.c", "k.ptx", "client", "seconds"))
        source.write_text(PROGRAM)
        kernel.write_text(KERNEL)
        compiler = find_compiler()
        assert compiler is not None
        subprocess.run([compiler, "-w", "-O2", source, find_libraries() / "libcuda.so.1", "-o", program], check=True)
        with hooks.adding_hook(hooks.observers, lambda report: seconds.append(report.seconds)):
            run_program([str(program), str(kernel), str(launches), str(where), str(result)], Watch())
        return float(result.read_text()), sum(seconds[1:])


def main() -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many is printed (1)")
    given = parser.parse_args()
    launches = given.launches
    best: dict[int, tuple[float, float, float]] = {}
    for _ in range(given.rounds):
        for where in range(len(WHERE)):
            start = time.process_time()
            total, checks = measure(launches, where)
            used = time.process_time() - start
            best[where] = min(best.get(where, (used, total, checks)), (used, total, checks))
    for where, (used, total, checks) in best.items():
        print(
            f"{launches:,} launches {WHERE[where]}: {total:.2f} s, {used:.2f} s of CPU in the server; "
            f"{checks / launches * 1e3:.3f} ms a check, {(total - checks) / launches * 1e3:.3f} ms beside it"
        )
    one, two, events = (best[where][0] for where in (1, 2, 3))
    print(f"two streams take {two / one:.2f} times the CPU of one, with events {events / one:.2f} times")


if __name__ == "__main__":
    main()
