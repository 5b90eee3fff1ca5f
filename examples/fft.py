"""1-D FFT in single precision, with kernels of radix 128 and 256, as in section 6.3 of the CudaDMA paper (SC 2011).

    python examples/fft.py [n [batch]]             run it: every launch is checked
    wsemu check examples/fft.py [n [batch]]        the same, with a report

n is a product of 128s and 256s, one pass each: 16384, 32768 (the default), 65536, 2097152 (the paper's), ...

    reference       16 compute warps load the points into registers themselves, as CUFFT does
    specialized     8 DMA warps bring the points into shared memory, while 16 compute warps transform those before

A pass of radix R (Stockham's: nothing is reordered) does n / R transforms of R points each that lie n / R apart.  With
`done` the product of the radices of the passes before, transform number j takes

    x[j + p n / R] exp(-2 pi i (j mod done) p / (done R))        p = 0 ... R - 1

and its point q goes to (j // done) done R + j mod done + q done.  A CTA does 32 transforms of 128 points at a time, or
16 of 256, side by side as the columns of a tile; each thread has 8 points of a column.  By the same rule there are
three stages, of 8, 8 and 2 or 4 points; between stages the points change threads through shared memory.
"""

import math
import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import CudaDMAStrided, block_size

COMPUTE_THREADS = 512
DMA_THREADS = 256
TILE = 4096  # points of a CTA, 8 of a compute thread and 16 of a DMA thread
BUFFER = 2 * TILE  # float32: the real and the imaginary part of each point
POINT_BYTES = 8
REGISTER_BYTES = 128  # of a DMA thread: its whole part of a tile, loaded before the tile is empty
COMPUTE_BARRIER = 15  # far from the barriers of the DMA object
ROOT_HALF = np.float32(math.sqrt(0.5))


# -- complex numbers: pairs of float32 -------------------------------------------------------------------------------
@cuda.jit(device=True)
def load(points, i):
    """Return point i, in one access of 8 bytes."""
    real, imag = ptx.ld_v2(points, 2 * i)
    return complex(real, imag)


@cuda.jit(device=True)
def store(points, i, point):
    ptx.st_v2(points, 2 * i, (point.real, point.imag))


@cuda.jit(device=True)
def product(a, b):
    """Return a b, rounded as written; otherwise the compiler may fuse either product with a later sum."""
    real = cuda.fma(a.real, b.real, -cuda.libdevice.fmul_rn(a.imag, b.imag))
    return complex(real, cuda.fma(a.real, b.imag, cuda.libdevice.fmul_rn(a.imag, b.real)))


@cuda.jit(device=True)
def scaled(x):
    """Return x / sqrt(2)."""
    return cuda.libdevice.fmul_rn(ROOT_HALF, x)


@cuda.jit(device=True)
def turned(a):
    """Return -i a."""
    return complex(a.imag, -a.real)


# -- transforms of points in registers -------------------------------------------------------------------------------
@cuda.jit(device=True)
def transform4(a, b, c, d):
    even0, even1 = a + c, a - c
    odd0, odd1 = b + d, turned(b - d)
    return even0 + odd0, even1 + odd1, even0 - odd0, even1 - odd1


@cuda.jit(device=True)
def transform8(z):
    """Transform 8 points in place."""
    even0, even1, even2, even3 = transform4(z[0], z[2], z[4], z[6])
    odd0, odd1, odd2, odd3 = transform4(z[1], z[3], z[5], z[7])
    odd1 = complex(scaled(odd1.real + odd1.imag), scaled(odd1.imag - odd1.real))
    odd2 = turned(odd2)
    odd3 = complex(scaled(odd3.imag - odd3.real), -scaled(odd3.imag + odd3.real))
    z[0], z[1], z[2], z[3] = even0 + odd0, even1 + odd1, even2 + odd2, even3 + odd3
    z[4], z[5], z[6], z[7] = even0 - odd0, even1 - odd1, even2 - odd2, even3 - odd3


# -- where points lie ------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def spread(i, size, radix):
    """Return i // size * size * radix + i % size: space for `radix` runs in place of one run of `size`."""
    rest = i & (size - 1)
    return (i - rest) * radix + rest


@cuda.jit(device=True)
def place(radix, p, column):
    """The word of the plane for point p of a column, so that the lanes of a warp always meet different banks.

    A warp stores a row of 32 columns or two rows of 16, next to each other or 8 apart; it loads such rows, or 32 points
    of one column.
    """
    if radix == 128:
        word = (32 * p + column) ^ (p & 31)
    else:
        word = (16 * p + column) ^ ((p >> 1 & 15) | (p << 1 & 16))
    return word


@cuda.jit(device=True)
def swap(z, plane, radix, p, p_step, column, new_p, new_p_step, new_column, new_column_step):
    """Store 8 points of a column, and load 8 others: the real parts first, then the imaginary ones.

    The plane has no room for both.
    """
    ptx.bar_sync(COMPUTE_BARRIER, COMPUTE_THREADS)  # what was there before has been loaded
    for s in range(8):
        plane[place(radix, p + s * p_step, column)] = z[s].real
    ptx.bar_sync(COMPUTE_BARRIER, COMPUTE_THREADS)
    for s in range(8):
        z[s] = complex(plane[place(radix, new_p + s * new_p_step, new_column + s * new_column_step)], z[s].imag)
    ptx.bar_sync(COMPUTE_BARRIER, COMPUTE_THREADS)
    for s in range(8):
        plane[place(radix, p + s * p_step, column)] = z[s].imag
    ptx.bar_sync(COMPUTE_BARRIER, COMPUTE_THREADS)
    for s in range(8):
        z[s] = complex(z[s].real, plane[place(radix, new_p + s * new_p_step, new_column + s * new_column_step)])


# -- a pass, as the compute warps see it -----------------------------------------------------------------------------
@cuda.jit(device=True)
def own(radix):
    """Return (p, column): the calling thread has the points p, p + radix / 8, ... of this column of a tile."""
    columns = TILE // radix
    return cuda.threadIdx.x // columns, cuda.threadIdx.x % columns


@cuda.jit(device=True)
def load_twiddles(z, radix, done, tile, twiddles):
    """Load the factors by which the thread's points of a tile are multiplied."""
    p, column = own(radix)
    k = (tile * (TILE // radix) + column) & (done - 1)
    for s in range(8):
        z[s] = load(twiddles, (p + s * (radix // 8)) * done + k)


@cuda.jit(device=True)
def multiply(z, radix, points, first, stride):
    """Multiply z by the thread's points of a tile that begins at `first`, with rows `stride` points apart."""
    p, column = own(radix)
    for s in range(8):
        z[s] = product(z[s], load(points, first + (p + s * (radix // 8)) * stride + column))


@cuda.jit(device=True)
def transform(z, radix, plane, roots):
    """Transform the columns of a tile: the thread's own points go in and come out."""
    p, column = own(radix)
    step = radix // 8

    transform8(z)
    swap(z, plane, radix, 8 * p, 1, column, p, step, column, 0)
    for s in range(1, 8):
        z[s] = product(z[s], load(roots, p % 8 * s * (radix // 64)))
    transform8(z)
    swap(z, plane, radix, spread(p, 8, 8), 8, column, p, step, column, 0)
    if radix == 128:
        for s in range(4):
            other = product(z[s + 4], load(roots, p + s * step))
            z[s], z[s + 4] = z[s] + other, z[s] - other
    else:
        for s in range(2):
            b = product(z[s + 2], load(roots, p + s * step))
            c = product(z[s + 4], load(roots, (p + s * step) * 2))
            d = product(z[s + 6], load(roots, (p + s * step) * 3))
            z[s], z[s + 2], z[s + 4], z[s + 6] = transform4(z[s], b, c, d)


@cuda.jit(device=True)
def store_tile(z, radix, done, tile, plane, result):
    """Store the thread's points of a tile, neighbouring lanes to neighbouring places."""
    p, column = own(radix)
    first, step = tile * (TILE // radix), radix // 8
    if done == 1:  # each column goes to one run of `radix` points
        along, across = cuda.threadIdx.x % radix, cuda.threadIdx.x // radix
        across_step = COMPUTE_THREADS // radix
        swap(z, plane, radix, p, step, column, along, 0, across, across_step)
        for s in range(8):
            store(result, (first + across + s * across_step) * radix + along, z[s])
    else:
        place_of_0 = spread(first + column, done, radix)
        for s in range(8):
            store(result, place_of_0 + (p + s * step) * done, z[s])


@cuda.jit(device=True)
def plain_pass(radix, n, done, tiles, points, twiddles, roots, plane, result):
    z = cuda.local.array(8, np.complex64)
    for tile in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
        load_twiddles(z, radix, done, tile, twiddles)
        multiply(z, radix, points, spread(tile * (TILE // radix), n // radix, radix), n // radix)
        transform(z, radix, plane, roots)
        store_tile(z, radix, done, tile, plane, result)


@cuda.jit(device=True)
def specialized_pass(dma, radix, n, done, tiles, points, twiddles, roots, buffer, plane, result):
    if cuda.threadIdx.x < COMPUTE_THREADS:
        z = cuda.local.array(8, np.complex64)
        dma.start_async_dma()
        for tile in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
            load_twiddles(z, radix, done, tile, twiddles)
            dma.wait_for_dma_finish()
            multiply(z, radix, buffer, 0, TILE // radix)
            dma.start_async_dma()
            transform(z, radix, plane, roots)
            store_tile(z, radix, done, tile, plane, result)

    elif dma.owns_this_thread():
        registers = cuda.local.array(REGISTER_BYTES, np.uint8, 16)
        for tile in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
            source = points[2 * spread(tile * (TILE // radix), n // radix, radix) :]
            dma.start_xfer_async(source, registers)
            dma.wait_xfer_finish(source, buffer, registers)
        dma.wait_for_dma_start()  # answers the compute warps' last arrive


@cuda.jit
def reference128(n, done, tiles, points, twiddles, roots, result):
    plane = cuda.shared.array(TILE, np.float32)
    plain_pass(128, n, done, tiles, points, twiddles, roots, plane, result)


@cuda.jit
def reference256(n, done, tiles, points, twiddles, roots, result):
    plane = cuda.shared.array(TILE, np.float32)
    plain_pass(256, n, done, tiles, points, twiddles, roots, plane, result)


def rows_of_a_tile(radix, n):
    """Return the transfer of a tile: `radix` rows, n / radix points apart."""
    row = TILE // radix * POINT_BYTES
    return CudaDMAStrided(
        1, DMA_THREADS, COMPUTE_THREADS, COMPUTE_THREADS, row, radix, n // radix * POINT_BYTES, row,
        alignment=16, bytes_per_thread=REGISTER_BYTES,
    )  # fmt: skip


def versions(n):
    """Return name -> (kernels by radix, threads of a CTA) for transforms of n points."""
    rows128, rows256 = rows_of_a_tile(128, n), rows_of_a_tile(256, n)

    @cuda.jit
    def specialized128(n, done, tiles, points, twiddles, roots, result):
        buffer = cuda.shared.array(BUFFER, np.float32, 16)
        plane = cuda.shared.array(TILE, np.float32)
        specialized_pass(rows128, 128, n, done, tiles, points, twiddles, roots, buffer, plane, result)

    @cuda.jit
    def specialized256(n, done, tiles, points, twiddles, roots, result):
        buffer = cuda.shared.array(BUFFER, np.float32, 16)
        plane = cuda.shared.array(TILE, np.float32)
        specialized_pass(rows256, 256, n, done, tiles, points, twiddles, roots, buffer, plane, result)

    return {
        "reference": ({128: reference128, 256: reference256}, COMPUTE_THREADS),
        "specialized": ({128: specialized128, 256: specialized256}, block_size(rows128)),
    }


# -- the host --------------------------------------------------------------------------------------------------------
VERSIONS = ("reference", "specialized")
MOST_CTAS = 264
"""two on each of an H200's 132 SMs"""
MOST_ERROR = 0.25
"""maximum relative error of all points together, in units of eps log2(n), where eps is float32's 2 ** -23"""


def radices(n):
    """Return the radices whose product is n; empty if there are none. 128 is 2 ** 7, 256 is 2 ** 8."""
    exponent = n.bit_length() - 1
    large = exponent % 7
    small = (exponent - 8 * large) // 7
    found = [256] * large + [128] * small
    return found if n > 256 and math.prod(found) == n else []


def roots_of_unity(exponents, n):
    """Return exp(-2 pi i exponents / n), computed in float64 and rounded, as pairs of float32."""
    return np.exp(-2j * np.pi * (exponents % n) / n).astype(np.complex64).ravel().view(np.float32)


def fft(version, x):
    """Return the transforms of the rows of x, complex64, by a version of the kernels."""
    batch, n = x.shape
    kernels, threads = versions(n)[version]
    tiles = x.size // TILE
    points, result = x.copy().ravel().view(np.float32), np.empty(2 * x.size, np.float32)
    done = 1
    for radix in radices(n):
        twiddles = roots_of_unity(np.outer(np.arange(radix), np.arange(done)), done * radix)
        roots = roots_of_unity(np.arange(radix), radix)
        grid = min(-(-tiles // 2), MOST_CTAS)
        kernels[radix][grid, threads](n, done, tiles, points, twiddles, roots, result)
        points, result = result, points
        done *= radix
    return points.view(np.complex64).reshape(batch, n)


def error(result, x):
    """Return ||result - FFT(x)|| / ||FFT(x)|| in units of eps log2(n), where NumPy transforms in float64."""
    right = np.fft.fft(x.astype(np.complex128))
    relative = np.linalg.norm(result - right) / np.linalg.norm(right)
    return relative / (np.finfo(np.float32).eps * math.log2(x.shape[1]))


def main():
    given = sys.argv[1:] or ["32768"]
    if len(given) > 2 or not all(text.isdecimal() for text in given):
        sys.exit(f"{' '.join(given)}: give the points of a transform and how many transforms, such as 32768 2")
    n, batch = int(given[0]), int(given[1]) if len(given) > 1 else 1
    if not radices(n):
        sys.exit(f"n is {n}: give a product of 128s and 256s, such as 16384, 32768, 65536 or 2097152")
    if batch < 1:
        sys.exit(f"batch is {batch}: give 1 or more")
    random = np.random.default_rng(1)
    x = random.standard_normal((batch, 2 * n), np.float32).view(np.complex64)

    for version in VERSIONS:
        found = error(fft(version, x), x)
        if not found <= MOST_ERROR:
            sys.exit(f"{version}: off by {found:.3g} eps log2(n) from NumPy's float64: more than {MOST_ERROR}")
        print(f"{version}: {batch} x {n}, off by {found:.2f} eps log2(n) from NumPy's float64")


if __name__ == "__main__":
    main()
