"""Measures what a launch of a program costs beside its check, and how long many equal launches take.

    python benchmarks/native_launches.py --launches 10000

A C program on the driver launches one small kernel so often.  The overhead is the time of the loop in the program, less
the seconds that the reports give for the checks.
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
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int count, char **words) {
    void *context, *module, *add, *stream = NULL;
    Address x;
    cuInit(0); cuDevicePrimaryCtxRetain(&context, 0); cuCtxSetCurrent(context);
    cuModuleLoad(&module, words[1]); cuModuleGetFunction(&add, module, "add");
    cuMemAlloc_v2(&x, 128); cuMemsetD32_v2(x, 0, 32);
    if (atoi(words[3])) cuStreamCreate(&stream, 0);
    void *arguments[] = {&x};
    cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
    double start = now();
    for (int n = 0; n < atoi(words[2]); n++) cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
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


def measure(launches: int, *, in_stream: bool) -> tuple[float, float]:
    """Return the seconds of the loop of launches, and those of their checks."""
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
            run_program([str(program), str(kernel), str(launches), str(int(in_stream)), str(result)], Watch())
        return float(result.read_text()), sum(seconds[1:])


def main() -> None:
    """Print the two costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=10_000)
    launches = parser.parse_args().launches
    for in_stream in (False, True):
        start = time.process_time()
        total, checks = measure(launches, in_stream=in_stream)
        used = time.process_time() - start
        where = "in a stream of the program" if in_stream else "in the default stream"
        print(
            f"{launches:,} launches {where}: {total:.2f} s, {used:.2f} s of CPU in the server; "
            f"{checks / launches * 1e3:.3f} ms a check, {(total - checks) / launches * 1e3:.3f} ms beside it"
        )


if __name__ == "__main__":
    main()
