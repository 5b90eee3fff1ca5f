"""The game of life on a torus: command line, records of events, pinned memory, contexts."""

import argparse

import numpy as np
from numba import cuda


@cuda.jit
def generation(world, after):
    row, column = cuda.grid(2)
    height, width = world.shape
    if row >= height or column >= width:
        return
    neighbours = 0
    for dr in (-1, 0, 1):
        for dc in (-1, 0, 1):
            if dr != 0 or dc != 0:
                neighbours += world[(row + dr) % height, (column + dc) % width]
    after[row, column] = 1 if neighbours == 3 or (neighbours == 2 and world[row, column]) else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--generations", type=int, default=4)
    return parser.parse_args()


def main():
    options = parse()
    if not cuda.is_available():
        raise SystemExit("no GPU")
    device = cuda.get_current_device()
    side = 16 if device.MAX_THREADS_PER_BLOCK >= 256 else 8
    world = cuda.pinned_array((options.size, options.size), dtype=np.int8)
    world[:] = 0
    for row, column in ((0, 1), (1, 2), (2, 0), (2, 1), (2, 2)):  # a glider
        world[row, column] = 1
    start, end = cuda.event(), cuda.event()
    blocks = (options.size + side - 1) // side
    with cuda.gpus[0]:
        d_world = cuda.to_device(world)
        d_after = cuda.device_array_like(d_world)
        start.record()
        for _ in range(options.generations):
            generation[(blocks, blocks), (side, side)](d_world, d_after)
            d_world, d_after = d_after, d_world
        end.record()
        end.synchronize()
        assert cuda.event_elapsed_time(start, end) > 0
    moved = np.roll(world, (options.generations // 4,) * 2, axis=(0, 1))
    np.testing.assert_array_equal(d_world.copy_to_host(), moved)
    print(f"the glider has moved on {cuda.current_context().device.compute_capability}")


if __name__ == "__main__":
    main()
# expect: 1 kernel, 4 launches: 4 verified
