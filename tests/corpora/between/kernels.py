"""Kernels that programs of the corpus share."""

from wsemu import cuda


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def blur(x, out, first, end):
    i = first + cuda.grid(1)
    if i < end:
        out[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, x.size - 1)]) / 3
