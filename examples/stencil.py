"""A stencil of 8th order in three dimensions, as in section 6.2 of the CudaDMA paper (SC 2011), after Micikevicius.

    python examples/stencil.py [x y z]             run it: every launch is checked
    wsemu check examples/stencil.py [x y z]        the same, with a report

The paper's sizes are 512 512 512, 640 640 400 and 800 800 200; 64 32 4 is the default.

A CTA owns a tile of X and Y and walks along Z.  The slice that it is at lies in shared memory with a halo of 4 points
on each side; a compute thread keeps its own 4 points ahead and 4 behind in registers.

    reference             all threads load the tile and its halo, and compute
    halo_only_single      DMA warps bring the halo, into one buffer
    halo_only_double      two buffers, each with DMA warps of its own
    halo_only_manual      two buffers that the same DMA warps fill in turn
    block_halo_single     more DMA warps bring the points ahead, in 16-byte accesses
    halo_only_bulk        the halo, into two buffers: one thread of each set of DMA warps starts bulk copies (sm_90)
    pipeline              a ring of slices with their halos: 24 lanes of a warp copy a row each, and what lies ahead
                          along Z is already there

The halo beside a row of a tile is half a sector of 32 bytes: `uncoalesced` says so, and nothing can be done about it.
"""

import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Buffers, CudaDMAHalo, CudaDMAStrided, Pipeline, block_size

RADIUS = 4
MARGIN = 8  # points of a row before the first and after the last: tiles begin at sectors of 32 bytes
TILE_X = 32
TILE_Y = 16
COLUMNS = TILE_X + 2 * RADIUS  # of a slice in shared memory
ROWS = TILE_Y + 2 * RADIUS
COMPUTE_THREADS = TILE_X * TILE_Y
UNIT = 16  # bytes of a DMA thread's access, and of all that it moves at a time
HALO_THREADS = 96  # 8 rows of 8 units, then 32 flanks of one
BLOCK_THREADS = 128  # 16 rows of 8 units
COMPUTE_BARRIER = 15  # far from the barriers of the DMA objects

SLICES = 8  # in the ring: the one in use, 4 ahead of it, and 3 in flight
RING = Pipeline(SLICES, ROWS, COMPUTE_THREADS // 32)  # a lane of each compute warp releases its slices

C0, C1, C2, C3, C4 = (np.float32(c) for c in (-205 / 24, 8 / 5, -1 / 5, 8 / 315, -1 / 560))  # the Laplacian's


@cuda.jit(device=True)
def around(points, y, x, distance):
    """Return the sum of the four points of a slice at a distance from (y, x)."""
    return (points[y, x - distance] + points[y, x + distance]) + (points[y - distance, x] + points[y + distance, x])


@cuda.jit(device=True)
def stencil(points, y, x, current, near1, near2, near3, near4):
    """Return the stencil at (y, x) of a slice; near1 to near4 are the sums along Z."""
    total = C0 * current
    total = cuda.fma(C1, around(points, y, x, 1) + near1, total)
    total = cuda.fma(C2, around(points, y, x, 2) + near2, total)
    total = cuda.fma(C3, around(points, y, x, 3) + near3, total)
    return cuda.fma(C4, around(points, y, x, 4) + near4, total)


@cuda.jit
def reference(volume, result):
    points = cuda.shared.array((ROWS, COLUMNS), np.float32)
    tile_x = cuda.threadIdx.x % TILE_X + RADIUS
    tile_y = cuda.threadIdx.x // TILE_X + RADIUS
    x = cuda.blockIdx.x * TILE_X + tile_x - RADIUS
    y = cuda.blockIdx.y * TILE_Y + tile_y - RADIUS
    line = volume[:, y + RADIUS, x + MARGIN]
    behind4, behind3, behind2, behind1 = line[0], line[1], line[2], line[3]
    current, ahead1, ahead2, ahead3 = line[4], line[5], line[6], line[7]

    for z in range(result.shape[0]):
        ahead4 = line[z + 2 * RADIUS]
        cuda.syncthreads()  # the slice before was used
        points[tile_y, tile_x] = current
        if tile_y < 2 * RADIUS:
            points[tile_y - RADIUS, tile_x] = volume[z + RADIUS, y, x + MARGIN]
            points[tile_y + TILE_Y, tile_x] = volume[z + RADIUS, y + RADIUS + TILE_Y, x + MARGIN]
        if tile_x < 2 * RADIUS:
            points[tile_y, tile_x - RADIUS] = volume[z + RADIUS, y + RADIUS, x + MARGIN - RADIUS]
            points[tile_y, tile_x + TILE_X] = volume[z + RADIUS, y + RADIUS, x + MARGIN + TILE_X]
        cuda.syncthreads()
        result[z, y, x] = stencil(
            points, tile_y, tile_x, current,
            behind1 + ahead1, behind2 + ahead2, behind3 + ahead3, behind4 + ahead4,
        )  # fmt: skip
        behind4, behind3, behind2, behind1 = behind3, behind2, behind1, current
        current, ahead1, ahead2, ahead3 = ahead1, ahead2, ahead3, ahead4


@cuda.jit(device=True)
def halo_only(halo, tile, volume, result):
    """Load the halo of each slice by DMA warps into the buffers of `tile`; compute threads load their own points."""
    first_x = cuda.blockIdx.x * TILE_X
    first_y = cuda.blockIdx.y * TILE_Y
    slices = result.shape[0]

    if cuda.threadIdx.x < COMPUTE_THREADS:
        tile_x = cuda.threadIdx.x % TILE_X + RADIUS
        tile_y = cuda.threadIdx.x // TILE_X + RADIUS
        x = first_x + tile_x - RADIUS
        y = first_y + tile_y - RADIUS
        line = volume[:, y + RADIUS, x + MARGIN]
        behind4, behind3, behind2, behind1 = line[0], line[1], line[2], line[3]
        current, ahead1, ahead2, ahead3 = line[4], line[5], line[6], line[7]

        halo.start()
        for z in range(slices):
            ahead4 = line[z + 2 * RADIUS]
            points = tile[halo.buffer(z)]
            if halo.stages == 1:  # of two buffers, no compute warp still reads this one: all have met in between
                ptx.bar_sync(COMPUTE_BARRIER, COMPUTE_THREADS)
            points[tile_y, tile_x] = current
            halo.wait_for_dma_finish(z)  # the compute warps wait here for each other's points too
            result[z, y, x] = stencil(
                points, tile_y, tile_x, current,
                behind1 + ahead1, behind2 + ahead2, behind3 + ahead3, behind4 + ahead4,
            )  # fmt: skip
            halo.start_async_dma(z, slices)
            behind4, behind3, behind2, behind1 = behind3, behind2, behind1, current
            current, ahead1, ahead2, ahead3 = ahead1, ahead2, ahead3, ahead4

    elif halo.owns_this_thread():
        for z in range(halo.first_tile(), slices, halo.tile_step()):
            source = volume[z + RADIUS, first_y + RADIUS :, first_x + MARGIN :]
            halo.execute_dma(z, slices, source, tile[halo.buffer(z), RADIUS:, RADIUS:])
        halo.finish()


@cuda.jit(device=True)
def block_and_halo(halo, block, points, leading, volume, result):
    """Load the halo of each slice by DMA warps; other DMA warps load the points for registers, 4 slices ahead."""
    first_x = cuda.blockIdx.x * TILE_X
    first_y = cuda.blockIdx.y * TILE_Y
    slices = result.shape[0]

    if cuda.threadIdx.x < COMPUTE_THREADS:
        tile_x = cuda.threadIdx.x % TILE_X + RADIUS
        tile_y = cuda.threadIdx.x // TILE_X + RADIUS
        x = first_x + tile_x - RADIUS
        y = first_y + tile_y - RADIUS
        line = volume[:, y + RADIUS, x + MARGIN]
        behind4, behind3, behind2, behind1 = line[0], line[1], line[2], line[3]
        current, ahead1, ahead2, ahead3 = line[4], line[5], line[6], line[7]

        halo.start_async_dma()
        block.start_async_dma()
        for z in range(slices):
            block.wait_for_dma_finish()  # the compute warps synchronize here: none still reads the previous slice
            ahead4 = leading[tile_y - RADIUS, tile_x - RADIUS]
            block.start_async_dma()
            points[tile_y, tile_x] = current
            halo.wait_for_dma_finish()
            result[z, y, x] = stencil(
                points, tile_y, tile_x, current,
                behind1 + ahead1, behind2 + ahead2, behind3 + ahead3, behind4 + ahead4,
            )  # fmt: skip
            halo.start_async_dma()
            behind4, behind3, behind2, behind1 = behind3, behind2, behind1, current
            current, ahead1, ahead2, ahead3 = ahead1, ahead2, ahead3, ahead4

    elif halo.owns_this_thread():
        for z in range(slices):
            source = volume[z + RADIUS, first_y + RADIUS :, first_x + MARGIN :]
            halo.execute_dma(source, points[RADIUS:, RADIUS:])
        halo.wait_for_dma_start()  # answers the compute warps' last arrive

    elif block.owns_this_thread():
        for z in range(slices):
            block.execute_dma(volume[z + 2 * RADIUS, first_y + RADIUS :, first_x + MARGIN :], leading)
        block.wait_for_dma_start()


@cuda.jit
def pipeline(volume, result):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((SLICES, ROWS, COLUMNS), np.float32, 16)
    first_x = cuda.blockIdx.x * TILE_X
    first_y = cuda.blockIdx.y * TILE_Y
    slices = result.shape[0]

    RING.start(bars)
    if cuda.threadIdx.x < COMPUTE_THREADS:
        tile_x = cuda.threadIdx.x % TILE_X + RADIUS
        tile_y = cuda.threadIdx.x // TILE_X + RADIUS
        x = first_x + tile_x - RADIUS
        y = first_y + tile_y - RADIUS
        line = volume[:, y + RADIUS, x + MARGIN]
        behind4, behind3, behind2, behind1 = line[0], line[1], line[2], line[3]
        for z in range(RADIUS):
            RING.consumer_wait(bars, z)
        current, ahead1 = tile[0, tile_y, tile_x], tile[1, tile_y, tile_x]
        ahead2, ahead3 = tile[2, tile_y, tile_x], tile[3, tile_y, tile_x]

        for z in range(slices):
            RING.consumer_wait(bars, z + RADIUS)
            ahead4 = tile[RING.stage(z + RADIUS), tile_y, tile_x]
            result[z, y, x] = stencil(
                tile[RING.stage(z)], tile_y, tile_x, current,
                behind1 + ahead1, behind2 + ahead2, behind3 + ahead3, behind4 + ahead4,
            )  # fmt: skip
            cuda.syncwarp()
            if cuda.threadIdx.x % 32 == 0:
                RING.consumer_release(bars, z)
            behind4, behind3, behind2, behind1 = behind3, behind2, behind1, current
            current, ahead1, ahead2, ahead3 = ahead1, ahead2, ahead3, ahead4

    elif cuda.threadIdx.x < COMPUTE_THREADS + ROWS:  # the producers
        row = cuda.threadIdx.x - COMPUTE_THREADS
        for z in range(slices + RADIUS):
            to = RING.stage(z), row, 0
            source = z + RADIUS, first_y + row, first_x + MARGIN - RADIUS
            RING.producer_acquire(bars, z)
            ptx.cp_async_bulk_global_to_shared(tile, to, volume, source, 4 * COLUMNS, bars, RING.full(z))
            RING.producer_commit(bars, z, 4 * COLUMNS)


def versions(pitch):
    """Return (kernel, threads of a CTA) of each version; rows are `pitch` bytes apart, a multiple of 16."""
    first_block_thread = COMPUTE_THREADS + HALO_THREADS
    halo = CudaDMAHalo(
        1, HALO_THREADS, COMPUTE_THREADS, COMPUTE_THREADS, 4, TILE_X, TILE_Y, RADIUS, pitch,
        alignment=UNIT, bytes_per_thread=UNIT,
    )  # fmt: skip
    block = CudaDMAStrided(
        2, BLOCK_THREADS, COMPUTE_THREADS, first_block_thread, 4 * TILE_X, TILE_Y, pitch, 4 * TILE_X,
        alignment=UNIT, bytes_per_thread=UNIT,
    )  # fmt: skip
    in_bulk = CudaDMAHalo(1, 32, COMPUTE_THREADS, COMPUTE_THREADS, 4, TILE_X, TILE_Y, RADIUS, pitch, engine="bulk")
    bulk = Buffers.double(in_bulk)
    single, double, manual = Buffers.single(halo), Buffers.double(halo), Buffers.manual_double(halo)

    @cuda.jit
    def halo_only_single(volume, result):
        tile = cuda.shared.array((1, ROWS, COLUMNS), np.float32, 16)
        halo_only(single, tile, volume, result)

    @cuda.jit
    def halo_only_double(volume, result):
        tile = cuda.shared.array((2, ROWS, COLUMNS), np.float32, 16)
        halo_only(double, tile, volume, result)

    @cuda.jit
    def halo_only_manual(volume, result):
        tile = cuda.shared.array((2, ROWS, COLUMNS), np.float32, 16)
        halo_only(manual, tile, volume, result)

    @cuda.jit
    def block_halo_single(volume, result):
        points = cuda.shared.array((ROWS, COLUMNS), np.float32, 16)
        leading = cuda.shared.array((TILE_Y, TILE_X), np.float32, 16)
        block_and_halo(halo, block, points, leading, volume, result)

    @cuda.jit
    def halo_only_bulk(volume, result):
        tile = cuda.shared.array((2, ROWS, COLUMNS), np.float32, 16)
        halo_only(bulk, tile, volume, result)

    return [
        (reference, COMPUTE_THREADS),
        (halo_only_single, block_size(single)),
        (halo_only_double, block_size(double)),
        (halo_only_manual, block_size(manual)),
        (block_halo_single, block_size(halo, block)),
        (halo_only_bulk, block_size(bulk)),
        (pipeline, COMPUTE_THREADS + 32),
    ]


def fma(a, b, c):
    """Return float32 a * b + c with one rounding: the sum is rounded to odd in float64, then to nearest."""
    product = a.astype(np.float64) * b
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits % 2 == 0), bits + toward, bits)
    return odd.view(np.float64).astype(np.float32)


def expected(volume):
    """Return the kernels' sums in their order, slice by slice, each product and sum with one rounding."""
    result = np.empty([n - 2 * m for n, m in zip(volume.shape, (RADIUS, RADIUS, MARGIN), strict=True)], np.float32)
    z_size, y_size, x_size = result.shape

    def at(z, y, x):
        """Return a slice of the volume, moved by y and x."""
        return volume[RADIUS + z, RADIUS + y : RADIUS + y + y_size, MARGIN + x : MARGIN + x + x_size]

    for z in range(z_size):
        total = C0 * at(z, 0, 0)
        for d, coefficient in enumerate((C1, C2, C3, C4), 1):
            sides = (at(z, 0, -d) + at(z, 0, d)) + (at(z, -d, 0) + at(z, d, 0))
            total = fma(sides + (at(z - d, 0, 0) + at(z + d, 0, 0)), coefficient, total)
        result[z] = total
    return result


def main():
    given = sys.argv[1:] or ["64", "32", "4"]
    if len(given) != 3 or not all(text.isdecimal() for text in given):
        sys.exit(f"{' '.join(given)}: give the sizes x y z of the volume, such as 64 32 4")
    x_size, y_size, z_size = map(int, given)
    for name, size, tile in (("x", x_size, TILE_X), ("y", y_size, TILE_Y)):
        if size < 1 or size % tile:
            sys.exit(f"{name} is {size}: give a positive multiple of {tile}, such as {max(-(-size // tile), 1) * tile}")
    if z_size < 1:
        sys.exit(f"z is {z_size}: give 1 or more")
    shape = (z_size + 2 * RADIUS, y_size + 2 * RADIUS, x_size + 2 * MARGIN)
    volume = np.random.default_rng(1).standard_normal(shape, np.float32)
    right = expected(volume)

    for kernel, threads in versions(volume.strides[1]):
        name = kernel.py_func.__name__
        result = np.zeros((z_size, y_size, x_size), np.float32)
        kernel[(x_size // TILE_X, y_size // TILE_Y), threads](volume, result)
        wrong = np.count_nonzero(result != right)
        if wrong:
            sys.exit(f"{name}: {wrong} of {result.size} points differ from NumPy's float32 in the kernel's order")
        print(f"{name}: {x_size} x {y_size} x {z_size}, equal to NumPy's float32 in the kernel's order, bit for bit")


if __name__ == "__main__":
    main()
