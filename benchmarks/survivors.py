"""Mutants that survive, and why each of them changes nothing that these programs could show.

    (file function, the changed line, why)

In a line, `...` matches anything.  Comments are left out of a line, and several lines of one statement form one line.
"""

WAITS = (
    "a sync where an arrive would do: it waits longer than it needs to, and nobody waits for the waiting warp meanwhile"
)
FREE_ID = "the object's other calls follow, and no other object has the id"
FREE_THREADS = "the object's own loops follow: any number of warps transfers everything; the rest of the CTA's are idle"
FREE_PLACE = "the launch counts the threads anew: a warp between the two ranges is idle"
OTHER_BARRIER = "the same warps meet on another barrier, which nobody else uses"
WHOLE_TILES = "a multiple of the step: the loop has as many rounds"
ANY_GRID = "the CTAs share the tiles by their number, whatever it is"
ONE_EACH = "with one tile to a generation, every tile closes its own, and the number of tiles is not looked at"
BUFFERED = "the other way of buffering, with the same two buffers: only the overlap differs"
LARGER = "more registers than are used"
SPARED = "only spares instructions: the loop within looks at every word"
BY_ZERO = (
    "a real gap: stages // ids is 0, which the host would refuse, but the object is made in the kernel; a division by "
    "0 gives 0 here and anything on a GPU"
)
ROUNDED = "n // ... is the same for n + 1"
LOW_BITS = (
    "n / radix is 256 at most: the mask differs in bits that are 0 where a tile begins; it would be wrong from "
    "2,097,152 points on, which are too many for this list"
)
NEIGHBOUR = (
    "the number of tiles is even: the DMA warps take the two ids the other way round, and each tile is handed over by "
    "the time that its neighbour is"
)
BEYOND = "a step beyond the last one: `locate` finds no element there"

SURVIVORS: tuple[tuple[str, str, str], ...] = (
    # patterns
    ("patterns/base.py CudaDMA.start_async_dma", "ptx.bar_sync(2 * self.dma_id + 1, ...)", WAITS),
    ("patterns/base.py CudaDMA.finish_async_dma", "ptx.bar_sync(2 * self.dma_id, ...)", WAITS),
    ("patterns/buffers.py Buffers.finish_async_dma", "ptx.bar_sync(self.full(i), self.count)", WAITS),
    (
        "patterns/sequential.py CudaDMASequential.source",
        "return Rows(src, ...1)",
        "there is one element: the distance to the next is not used",
    ),
    (
        "patterns/sequential.py CudaDMASequential.destination",
        "return Rows(dst, ...1)",
        "there is one element: the distance to the next is not used",
    ),
    (
        "patterns/strided.py lanes_per_element",
        "units = (element_bytes + pattern.alignment - 2) // pattern.alignment",
        "sizes are multiples of 4: where the last unit is not full, it has 4 bytes or more",
    ),
    (
        "patterns/strided.py lanes_per_element",
        "if units < 32:",
        "32 units are 32 lanes either way",
    ),
    ("patterns/strided.py lanes_per_element", "if units <= 31:", "32 units are 32 lanes either way"),
    (
        "patterns/transfer.py Copy.turns",
        "units = (self.element_bytes + self.pattern.alignment - 2) // self.pattern.alignment",
        "sizes are multiples of 4: where the last unit is not full, it has 4 bytes or more",
    ),
    ("patterns/transfer.py Copy.locate", "left = -1", "no unit and no word fits into 0 bytes or fewer"),
    ("patterns/transfer.py Copy.load_step", "elif True:", SPARED),
    ("patterns/transfer.py Copy.load_step", "elif self.element_bytes % unit != ...1:", SPARED),
    (
        "patterns/transfer.py Copy.load_step",
        "for byte in range(0, ...unit ...):",
        "the words that are left out or added lie beyond the last one that an incomplete unit can have",
    ),
    ("patterns/transfer.py Copy.store_step", "elif True:", SPARED),
    ("patterns/transfer.py Copy.store_step", "elif self.element_bytes % unit != ...1:", SPARED),
    (
        "patterns/transfer.py Copy.store_step",
        "for byte in range(0, ...unit ...):",
        "the words that are left out or added lie beyond the last one that an incomplete unit can have",
    ),
    ("patterns/transfer.py Copy.run", "for step in range((self.steps() + 1)):", BEYOND),
    ("patterns/transfer.py Copy.complete", "for step in range(1, (self.steps() + 1)):", BEYOND),
    (
        "patterns/transfer.py Transfer.transfer",
        "registers = cuda.local.array((self.register_bytes + 4), np.uint8, 16)",
        LARGER,
    ),
    (
        "patterns/halo.py CudaDMAHalo.transfer",
        "registers = cuda.local.array((self.register_bytes + 4), np.uint8, 16)",
        LARGER,
    ),
    (
        "patterns/buffers.py Buffers.rank",
        "return ((cuda.threadIdx.x + self.pattern.first_dma_thread)) % self.pattern.dma_threads",
        "the threads of a set get its numbers in another order, each of them one",
    ),
    # producer and consumer
    ("examples/producer_consumer.py producer_consumer", "ptx.bar_sync(FULL, THREADS)", WAITS),
    ("examples/producer_consumer.py producer_consumer", "ptx.bar_sync(EMPTY, THREADS)", WAITS),
    # saxpy
    ("examples/saxpy.py ", "X = CudaDMASequential(0, ...)", FREE_ID),
    ("examples/saxpy.py ", "Y = CudaDMASequential(3, ...)", FREE_ID),
    ("examples/saxpy.py ", "CudaDMASequential(4, ...)", FREE_ID),
    ("examples/saxpy.py ", "...CudaDMASequential(..., (DMA_THREADS ... 32), ...)", FREE_THREADS),
    ("examples/saxpy.py ", "...CudaDMASequential(..., (TILE + ... + 32), ...)", FREE_PLACE),
    ("examples/saxpy.py ", "..._BUFFERS = Buffers.manual_double(...", BUFFERED),
    ("examples/saxpy.py staged", "for first in range(..., (n - 1), ...):", WHOLE_TILES),
    (
        "examples/saxpy.py staged",
        "pass",
        "each thread uses what it copied itself, and the barriers are there to be measured",
    ),
    ("examples/saxpy.py staged_float4", "for first in range(..., (n - 1), ...):", WHOLE_TILES),
    ("examples/saxpy.py cudadma", "for first in range(..., (n - 1), ...):", WHOLE_TILES),
    (
        "examples/saxpy.py cudadma",
        "...wait_xfer_finish(...[(first + 1):], ...)",
        "the whole tile was loaded in the first phase: the second one looks at the source no more",
    ),
    (
        "examples/saxpy.py doubled",
        "tiles = (n - start + step - 2) // step",
        "n is a multiple of the step, and a CTA starts at a multiple of a tile",
    ),
    ("examples/saxpy.py doubled", "..._buffers...(i, (tiles + 1)...)", ONE_EACH),
    ("examples/saxpy.py main", "kernel[(GRID ... 1), threads](...)", ANY_GRID),
    # sgemv
    ("examples/sgemv.py ", "...VECTOR = CudaDMASequential(0, ...", FREE_ID),
    ("examples/sgemv.py ", "SINGLE, DOUBLE, MANUAL = ...", BUFFERED),
    ("examples/sgemv.py ", "HALF_DOUBLE, HALF_MANUAL = Buffers.manual_double(HALF_VECTOR), ...", BUFFERED),
    ("examples/sgemv.py sgemv", "3, MATRIX_DMA_THREADS, ...", FREE_ID),
    ("examples/sgemv.py sgemv", "2, (MATRIX_DMA_THREADS - 32), ...", FREE_THREADS),
    ("examples/sgemv.py sgemv", "for _ in range(1, n, TILE):", WHOLE_TILES),
    ("examples/sgemv.py sgemv", "for _ in range(0, (n - 1), TILE):", WHOLE_TILES),
    (
        "examples/sgemv.py sgemv",
        "for _ in range(0, n, (TILE + 1)):",
        "as many rounds below 4,160 columns, and more are too many for this list; from there on a deadlock",
    ),
    ("examples/sgemv.py sgemv", "for column in range(0, (n - 1), TILE):", WHOLE_TILES),
    ("examples/sgemv.py product", "for first in range(0, (TILE - 1), BATCH):", WHOLE_TILES),
    ("examples/sgemv.py reference", "for column in range(0, (n - 1), TILE):", WHOLE_TILES),
    ("examples/sgemv.py vec", "vector...(i, (tiles + 1)...)", ONE_EACH),
    ("examples/sgemv.py vec_single", "vec(SINGLE, tile, (n + 1), alpha, matrix, x, y)", ROUNDED),
    ("examples/sgemv.py vec_double", "vec(DOUBLE, tile, (n + 1), alpha, matrix, x, y)", ROUNDED),
    ("examples/sgemv.py vec_manual", "vec(MANUAL, tile, (n + 1), alpha, matrix, x, y)", ROUNDED),
    ("examples/sgemv.py both", "...(i, (tiles + 1)...)", ONE_EACH),
    ("examples/sgemv.py both_double", "4, MATRIX_DMA_THREADS, ...", FREE_ID),
    ("examples/sgemv.py both_double", "3, (MATRIX_DMA_THREADS - 32), ...", FREE_THREADS),
    ("examples/sgemv.py both_double", "...sets=1)...", BUFFERED),
    ("examples/sgemv.py both_double", "...(n + 1)...", ROUNDED),
    ("examples/sgemv.py both_manual", "4, MATRIX_DMA_THREADS, ...", FREE_ID),
    ("examples/sgemv.py both_manual", "3, (MATRIX_DMA_THREADS - 32), ...", FREE_THREADS),
    ("examples/sgemv.py both_manual", "...stages=1, ids=2)...", BY_ZERO),
    (
        "examples/sgemv.py both_manual",
        "...stages=2, ids=1)...",
        "both buffers share a generation: right, with less overlap",
    ),
    ("examples/sgemv.py both_manual", "...stages=2, ids=3)...", BY_ZERO),
    ("examples/sgemv.py both_manual", "...(n + 1)...", ROUNDED),
    # dgemm
    ("examples/dgemm.py algorithm_1", "for first in range(0, (a.shape[0] - 1), DEPTH):", WHOLE_TILES),
    ("examples/dgemm.py algorithm_2", "for first in range(DEPTH, (a.shape[0] - 1), DEPTH):", WHOLE_TILES),
    ("examples/dgemm.py algorithm_3", "for k in range(0, (depth - 1), DEPTH):", WHOLE_TILES),
    ("examples/dgemm.py algorithm_3_dma", "0, DMA_THREADS, ...", FREE_ID),
    ("examples/dgemm.py algorithm_3_dma", "4, DMA_THREADS, ...", FREE_ID),
    ("examples/dgemm.py algorithm_3_dma", "..., (DMA_THREADS - 32), ...", FREE_THREADS),
    (
        "examples/dgemm.py halves_by_dma",
        "..._halves = Buffers(..._dma, stages=2, ids=1)",
        "both halves share a generation: right, with less overlap",
    ),
    ("examples/dgemm.py halves_by_dma", "b_halves = Buffers(b_dma, stages=2, ids=3)", BY_ZERO),
    ("examples/dgemm.py halves_by_dma", "..._halves...(i, (halves + 1)...)", ONE_EACH),
    ("examples/dgemm.py halves_by_dma", "..._halves.execute_dma((i + 1), ...)", NEIGHBOUR),
    # fft
    (
        "examples/fft.py place",
        "word = (16 * p + column) ^ ((p >> 1 & 15) | (p << 1 & 17))",
        "the lowest bit of p << 1 is 0",
    ),
    ("examples/fft.py swap", "ptx.bar_sync((COMPUTE_BARRIER - 1), COMPUTE_THREADS)", OTHER_BARRIER),
    ("examples/fft.py transform", "...(radix // 63)...", "128 // 63 is 128 // 64, and 256 // 63 is 256 // 64"),
    ("examples/fft.py plain_pass", "...n // (radix + 1)...", LOW_BITS),
    ("examples/fft.py specialized_pass", "...n // (radix + 1)...", LOW_BITS),
    ("examples/fft.py reference...", "plain_pass(..., (n + 1), ...)", ROUNDED),
    ("examples/fft.py versions.specialized...", "specialized_pass(..., (n + 1), ...)", ROUNDED),
    ("examples/fft.py rows_of_a_tile", "0, DMA_THREADS, ...", FREE_ID),
    ("examples/fft.py rows_of_a_tile", "2, DMA_THREADS, ...", FREE_ID),
    ("examples/fft.py rows_of_a_tile", "1, (DMA_THREADS ... 32), ...", FREE_THREADS),
    ("examples/fft.py rows_of_a_tile", "..., (COMPUTE_THREADS + 32), row, ...", FREE_PLACE),
    ("examples/fft.py fft", "kernels[radix][(grid ... 1), threads](...)", ANY_GRID),
    # stencil
    ("examples/stencil.py halo_only", "ptx.bar_sync((COMPUTE_BARRIER - 1), COMPUTE_THREADS)", OTHER_BARRIER),
    ("examples/stencil.py halo_only", "halo...(z, (slices + 1)...)", ONE_EACH),
    ("examples/stencil.py versions", "0, HALO_THREADS, ...", FREE_ID),
    ("examples/stencil.py versions", "3, BLOCK_THREADS, ...", FREE_ID),
    ("examples/stencil.py versions", "..., (HALO_THREADS - 32), ...", FREE_THREADS),
    ("examples/stencil.py versions", "..., (BLOCK_THREADS ... 32), ...", FREE_THREADS),
    ("examples/stencil.py versions", "..., (first_block_thread + 32), ...", FREE_PLACE),
    ("examples/stencil.py versions", "single, double, manual = ...", BUFFERED),
)
