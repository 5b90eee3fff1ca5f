"""A slow Fourier transform: complex arithmetic and `cmath`, a thread for each frequency; then the sums of rows."""

import cmath
import math

import numpy as np
from numba import cuda


@cuda.jit
def transform(signal, spectrum):
    k = cuda.grid(1)
    if k < spectrum.size:
        total = 0j
        for n in range(signal.size):
            total += signal[n] * cmath.exp(-2j * math.pi * k * n / signal.size)
        spectrum[k] = total


@cuda.jit
def describe(rows, out):
    i = cuda.grid(1)
    if i < rows.shape[0]:
        out[i, 0] = rows[i].mean()
        out[i, 1] = np.std(rows[i])
        out[i, 2] = rows[i].argmax()


signal = np.sin(np.arange(32) * 2 * np.pi * 3 / 32) + 0.25
spectrum = np.zeros(32, np.complex128)
transform[1, 32](signal, spectrum)
assert np.allclose(spectrum, np.fft.fft(signal))

rows = np.abs(spectrum).reshape(4, 8)
out = np.zeros((4, 3))
describe[1, 32](rows, out)
assert np.allclose(out, np.stack([rows.mean(1), rows.std(1), rows.argmax(1)], 1))
# expect: 2 kernels, 2 launches: 2 verified
