"""Run correct programs with streams, events, copies and host functions on a GPU, and compare their results bit for bit.

    python benchmarks/between_device.py --runs 20

Each program is the repaired twin of one in `tests/corpora/between`, with arrays so large that missing waits would show.
It runs several times; the results must be those that NumPy computes on the host.  With two GPUs, programs that exchange
data between them run as well: events, and the collectives of `tests/ptx/ranks.cu`.  The benchmark needs only
Numba-CUDA, its cuda-bindings and NumPy.  `wsemu run` can also run the programs for one GPU:

    wsemu run benchmarks/between_device.py --runs 1 --size 256
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")  # loading at the first launch may wait for a kernel that spins
from numba import cuda

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 128
RANKS_PTX = Path(__file__).resolve().parents[1] / "tests" / "ptx" / "ranks.sm_90.ptx"


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
        out[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, x.size - 1)]) / np.float32(3)


@cuda.jit
def signal(x, flag, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor
    cuda.threadfence_system()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(flag, 0, 1)


def numbers(n: int) -> np.ndarray:
    """Return values whose sums and products round."""
    return (np.arange(n, dtype=np.float32) % np.float32(1000)) * np.float32(0.37) + np.float32(1)


def pinned(values: np.ndarray) -> np.ndarray:
    """Return a copy in pinned memory."""
    made = cuda.pinned_array(values.size, values.dtype)
    made[:] = values
    return made


def check(result: Any) -> Any:
    """Return the value of a driver call; raise RuntimeError for an error."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"the driver returned error {int(error)}")
    return values[0] if len(values) == 1 else values


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
called: list[Any] = []
"""functions that a driver may still call"""


def call_on_host(stream: Any, function: Callable[[], None]) -> None:
    """Let a stream call a host function.

    This calls the driver directly, because `Stream.add_callback` of Numba-CUDA 0.30 raises AttributeError for every
    handle.
    """
    try:
        stream.add_callback(lambda *_: function())
    except AttributeError:
        from cuda.bindings import driver

        called.append(HOST_FUNCTION(lambda _: function()))
        address = ctypes.cast(called[-1], ctypes.c_void_p).value
        check(driver.cuLaunchHostFunc(driver.CUstream(int(stream.handle)), driver.CUhostFn(address), 0))


Result = tuple[np.ndarray, np.ndarray]
"""what the device computed, and what it should have computed"""


def copy_then_wait(n: int, grid: int) -> Result:
    """H1: the host waits for the stream before it reads a copy."""
    s, d, h = cuda.stream(), cuda.device_array(n, np.float32), cuda.pinned_array(n, np.float32)
    fill[grid, BLOCK, s](d, 3.0)
    d.copy_to_host(h, stream=s)
    s.synchronize()
    return h.copy(), np.full(n, 3, np.float32)


def refill_after_event(n: int, grid: int) -> Result:
    """H5: a staging buffer is refilled after its copy is complete."""
    s, h = cuda.stream(), cuda.pinned_array(n, np.float32)
    parts = [cuda.device_array(n, np.float32) for _ in range(4)]
    copied = cuda.event()
    for k, part in enumerate(parts):
        h[:] = k
        part.copy_to_device(h, stream=s)
        copied.record(s)
        copied.synchronize()
    s.synchronize()
    return np.concatenate([part.copy_to_host() for part in parts]), np.repeat(np.arange(4, dtype=np.float32), n)


def two_copies_two_waits(n: int, grid: int) -> Result:
    """H12: each of two copies has its wait."""
    first, second = cuda.stream(), cuda.stream()
    a, b = cuda.to_device(numbers(n)), cuda.to_device(-numbers(n))
    x, y = (cuda.pinned_array(n, np.float32) for _ in range(2))
    a.copy_to_host(x, stream=first)
    b.copy_to_host(y, stream=second)
    first.synchronize()
    second.synchronize()
    return x + y, np.zeros(n, np.float32)


def event_between_streams(n: int, grid: int) -> Result:
    """S8: a stream waits for the event that another stream records after its copy."""
    side, main, h = cuda.stream(), cuda.stream(), pinned(numbers(n))
    d, copied = cuda.device_array(n, np.float32), cuda.event()
    d.copy_to_device(h, stream=side)
    copied.record(side)
    copied.wait(main)
    scale[grid, BLOCK, main](d, 2.0)
    result = cuda.pinned_array(n, np.float32)
    d.copy_to_host(result, stream=main)
    main.synchronize()
    return result.copy(), numbers(n) * np.float32(2)


def event_for_each_stream(n: int, grid: int) -> Result:
    """S10: each of two streams has its event."""
    streams, last = [cuda.stream() for _ in range(2)], cuda.stream()
    arrays = [cuda.device_array(n, np.float32) for _ in range(3)]
    for k, s in enumerate(streams):
        fill[grid, BLOCK, s](arrays[k], k + 1)
        done = cuda.event()
        done.record(s)
        done.wait(last)
    add[grid, BLOCK, last](*arrays)
    last.synchronize()
    return arrays[2].copy_to_host(), np.full(n, 3, np.float32)


def double_buffer(n: int, grid: int) -> Result:
    """S17: a writer waits for the last reads of its buffer."""
    up, run = cuda.stream(), cuda.stream()
    host = [pinned(numbers(n) + np.float32(k)) for k in range(6)]
    buffers = [cuda.device_array(n, np.float32) for _ in range(2)]
    total = cuda.to_device(np.zeros(n, np.float32))
    full, empty = ([cuda.event() for _ in range(2)] for _ in range(2))
    for k, h in enumerate(host):
        slot = k % 2
        if k > 1:
            empty[slot].wait(up)
        buffers[slot].copy_to_device(h, stream=up)
        full[slot].record(up)
        full[slot].wait(run)
        add[grid, BLOCK, run](buffers[slot], total, total)
        empty[slot].record(run)
    cuda.synchronize()
    expected = np.zeros(n, np.float32)
    for k in range(len(host)):
        expected = (numbers(n) + np.float32(k)) + expected
    return total.copy_to_host(), expected


def chunks_with_borders(n: int, grid: int) -> Result:
    """C1: chunks on several streams, each of which waits for its neighbors."""
    x, out, h = cuda.device_array(n, np.float32), cuda.device_array(n, np.float32), pinned(numbers(n))
    size = n // 4
    streams, done = [cuda.stream() for _ in range(4)], [cuda.event() for _ in range(4)]
    for k, s in enumerate(streams):
        part = slice(size * k, size * (k + 1))
        x[part].copy_to_device(h[part], stream=s)
        done[k].record(s)
    for k, s in enumerate(streams):
        for neighbor in {max(k - 1, 0), min(k + 1, 3)} - {k}:
            done[neighbor].wait(s)
        blur[-(-size // BLOCK), BLOCK, s](x, out, size * k, size * (k + 1))
    cuda.synchronize()
    v = numbers(n)
    left, right = np.concatenate([v[:1], v[:-1]]), np.concatenate([v[1:], v[-1:]])
    return out.copy_to_host(), ((left + v) + right) / np.float32(3)


def host_function(n: int, grid: int) -> Result:
    """C2: the main thread reads what a host function wrote, after a wait."""
    s, h, total = cuda.stream(), cuda.pinned_array(n, np.float32), cuda.pinned_array(1, np.float64)
    d = cuda.device_array(n, np.float32)

    def add_up() -> None:
        total[0] = h.sum(dtype=np.float64)

    fill[grid, BLOCK, s](d, 2.0)
    d.copy_to_host(h, stream=s)
    call_on_host(s, add_up)
    s.synchronize()
    return total.copy(), np.full(1, 2.0 * n)


def legacy_stream(n: int, grid: int) -> Result:
    """T2: the default stream orders blocking streams."""
    first, second = cuda.stream(), cuda.stream()
    d = cuda.to_device(numbers(n))
    scale[grid, BLOCK, first](d, 2.0)
    scale[grid, BLOCK](d, 3.0)
    scale[grid, BLOCK, second](d, 0.5)
    second.synchronize()
    return d.copy_to_host(), numbers(n) * np.float32(2) * np.float32(3) * np.float32(0.5)


def mapped_memory(n: int, grid: int) -> Result:
    """L5: the mapping of host memory ends after a wait."""
    s, h = cuda.stream(), numbers(n)
    with cuda.mapped(h, stream=s) as m:
        scale[grid, BLOCK, s](m, 3.0)
        s.synchronize()
    return h, numbers(n) * np.float32(3)


def managed_memory(n: int, grid: int) -> Result:
    """M1: the host writes managed memory after a wait."""
    x, out = cuda.managed_array(n, np.float32), cuda.device_array(n, np.float32)
    x[:] = numbers(n)
    add[grid, BLOCK](x, x, out)
    cuda.synchronize()
    x[:] = 7
    add[grid, BLOCK](x, out, out)
    return out.copy_to_host(), np.float32(7) + (numbers(n) + numbers(n))


def published_flag(n: int, grid: int) -> Result:
    """M3: the host reads data and a counter in mapped memory after a wait."""
    s, data, count = cuda.stream(), cuda.mapped_array(n, np.float32), cuda.mapped_array(1, np.int32)
    host, counted = np.asarray(data), np.asarray(count)
    host[:], counted[:] = numbers(n), 0
    signal[grid, BLOCK, s](data, count, 2.0)
    s.synchronize()
    return np.append(host, np.float32(counted[0])), np.append(numbers(n) * np.float32(2), np.float32(grid))


def query_until_done(n: int, grid: int) -> Result:
    """T1: the host queries an event until it is complete."""
    s, e, d, h = cuda.stream(), cuda.event(), cuda.device_array(n, np.float32), cuda.pinned_array(n, np.float32)
    fill[grid, BLOCK, s](d, 5.0)
    d.copy_to_host(h, stream=s)
    e.record(s)
    while not e.query():
        pass
    return h.copy(), np.full(n, 5, np.float32)


def pageable_copies(n: int, grid: int) -> Result:
    """H9: copies from and to pageable memory, after the wait of a block."""
    s, h, result = cuda.stream(), numbers(n), np.zeros(n, np.float32)
    with s.auto_synchronize():
        d = cuda.to_device(h, stream=s)
        scale[grid, BLOCK, s](d, 2.0)
        d.copy_to_host(result, stream=s)
    return result, numbers(n) * np.float32(2)


def two_threads(n: int, grid: int) -> Result:
    """S16: a thread waits for its work before another one uses it."""
    d = cuda.device_array(n, np.float32)

    def produce() -> None:
        s = cuda.stream()
        fill[grid, BLOCK, s](d, 4.0)
        s.synchronize()

    thread = threading.Thread(target=produce)
    thread.start()
    thread.join()
    scale[grid, BLOCK](d, 2.0)
    return d.copy_to_host(), np.full(n, 8, np.float32)


ONE_GPU = (
    copy_then_wait, refill_after_event, two_copies_two_waits, event_between_streams, event_for_each_stream,
    double_buffer, chunks_with_borders, host_function, legacy_stream, mapped_memory, managed_memory, published_flag,
    query_until_done, pageable_copies, two_threads,
)  # fmt: skip


# -- two GPUs ----------------------------------------------------------------------------------------------------------
@functools.cache
def enable_peers() -> None:
    """Let both GPUs access each other's memory."""
    contexts = []
    for k in range(2):
        with cuda.gpus[k]:
            contexts.append(cuda.current_context())
    for k in range(2):
        with cuda.gpus[k]:
            contexts[k].enable_peer_access(contexts[1 - k].handle)


def event_between_devices(n: int, grid: int) -> Result:
    """M2, S12: a stream of one GPU waits for an event of the other."""
    enable_peers()
    with cuda.gpus[0]:
        s0, d0, done = cuda.stream(), cuda.device_array(n, np.float32), cuda.event(timing=False)
        fill[grid, BLOCK, s0](d0, 3.0)
        done.record(s0)
    with cuda.gpus[1]:
        s1, out = cuda.stream(), cuda.device_array(n, np.float32)
        done.wait(s1)
        add[grid, BLOCK, s1](d0, d0, out)
        s1.synchronize()
        return out.copy_to_host(), np.full(n, 6, np.float32)


class Rank(NamedTuple):
    """One GPU of the collectives."""

    context: Any
    stream: Any
    kernels: dict[str, Any]


def make_rank(driver: Any, number: int) -> Rank:
    """Return a GPU with the kernels of the collectives."""
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(number))))
    check(driver.cuCtxSetCurrent(context))
    module = check(driver.cuModuleLoadData(RANKS_PTX.read_bytes() + b"\0"))
    names = ("one_shot", "two_shot", "put")
    kernels = {name: check(driver.cuModuleGetFunction(module, name.encode())) for name in names}
    return Rank(context, check(driver.cuStreamCreate(1)), kernels)


@functools.cache
def make_ranks(numbers: tuple[int, ...] = (0, 1)) -> list[Rank]:
    """Return the GPUs, each of which can access the memory of the other one."""
    from cuda.bindings import driver

    check(driver.cuInit(0))
    ranks = [make_rank(driver, number) for number in numbers]
    for k in range(2):
        if ranks[0].context == ranks[1].context:
            continue
        check(driver.cuCtxSetCurrent(ranks[k].context))
        (error,) = driver.cuCtxEnablePeerAccess(ranks[1 - k].context, 0)
        if int(error) not in (0, 704):  # 704: it is enabled
            raise RuntimeError(f"no access to the memory of a peer: error {int(error)}")
    return ranks


class Collective:
    """The memory and the launches of one collective."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver, self.ranks = driver, make_ranks()
        self.blocks: list[tuple[int, Any]] = []

    def put(self, rank: int, values: np.ndarray) -> int:
        """Return the address of a copy of an array in the memory of a GPU."""
        check(self.driver.cuCtxSetCurrent(self.ranks[rank].context))
        block = check(self.driver.cuMemAlloc(values.nbytes))
        check(self.driver.cuMemcpyHtoD(block, values.ctypes.data, values.nbytes))
        check(self.driver.cuCtxSynchronize())
        self.blocks.append((rank, block))
        return int(block)

    def launch(self, name: str, grid: int, block: int, pointers: list[int], *numbers: int) -> None:
        """Launch a kernel on both GPUs, with the number of the rank after the pointers."""
        types = (ctypes.c_void_p,) * len(pointers) + (ctypes.c_int,) * (1 + len(numbers))
        for k, rank in enumerate(self.ranks):
            check(self.driver.cuCtxSetCurrent(rank.context))
            given = ((*pointers, k, *numbers), types)
            check(self.driver.cuLaunchKernel(rank.kernels[name], grid, 1, 1, block, 1, 1, 0, rank.stream, given, 0))

    def read(self, rank: int, address: int, like: np.ndarray) -> np.ndarray:
        """Return an array from the memory of a GPU, after the launches of both."""
        for one in self.ranks:
            check(self.driver.cuCtxSetCurrent(one.context))
            check(self.driver.cuStreamSynchronize(one.stream))
        check(self.driver.cuCtxSetCurrent(self.ranks[rank].context))
        result = np.empty_like(like)
        check(self.driver.cuMemcpyDtoH(result.ctypes.data, address, like.nbytes))
        return result

    def free(self) -> None:
        """Free its memory."""
        for rank, block in self.blocks:
            check(self.driver.cuCtxSetCurrent(self.ranks[rank].context))
            check(self.driver.cuMemFree(block))


def one_shot_all_reduce(n: int, grid: int) -> Result:
    """R1: both GPUs add their arrays, with a barrier before the reads and one after them."""
    c, epochs = Collective(), 8
    x = [numbers(512) * np.float32(k + 1) for k in range(2)]
    flags, zeros = np.zeros(4, np.uint32), np.zeros(512, np.float32)
    pointers = [c.put(k, one[k]) for one in (x, [flags] * 2, [zeros] * 2) for k in range(2)]
    c.launch("one_shot", 2, 256, pointers, epochs)
    found = [c.read(k, pointers[4 + k], zeros) for k in range(2)]
    c.free()
    for epoch in range(1, epochs + 1):
        x = [one + np.float32(epoch) for one in x]
    return np.concatenate(found), np.tile(x[0] + x[1], 2)


def two_shot_all_reduce(n: int, grid: int) -> Result:
    """R2, R4: each GPU adds half of the elements, and reads the other half after a barrier."""
    c = Collective()
    x = [numbers(1024) * np.float32(k + 1) for k in range(2)]
    half, flags, zeros = np.zeros(512, np.float32), np.zeros(4, np.uint32), np.zeros(1024, np.float32)
    pointers = [c.put(k, one[k]) for one in (x, [half] * 2, [flags] * 2, [zeros] * 2) for k in range(2)]
    c.launch("two_shot", 2, 256, pointers)
    found = [c.read(k, pointers[6 + k], zeros) for k in range(2)]
    c.free()
    return np.concatenate(found), np.tile((x[0] + np.float32(1)) + (x[1] + np.float32(1)), 2)


def put_with_signal(n: int, grid: int) -> Result:
    """R7: a GPU waits for a signal before each chunk that the other one puts there."""
    c, chunks = Collective(), 64
    x = numbers(256 * chunks)
    zeros = np.zeros_like(x)
    pointers = [c.put(0, x), c.put(1, zeros), c.put(1, np.zeros(1, np.uint32)), c.put(1, zeros)]
    c.launch("put", 1, 256, pointers, chunks)
    found = c.read(1, pointers[3], zeros)
    c.free()
    return found, np.float32(2) * x


TWO_GPUS = (event_between_devices, one_shot_all_reduce, two_shot_all_reduce, put_with_signal)


def peer_access() -> Iterator[Callable[[int, int], Result]]:
    """Yield the programs of two GPUs if there are two that access each other's memory."""
    try:
        count = len(cuda.gpus.lst)
    except Exception as error:  # a driver without devices
        print(f"no GPUs are listed: {error}")
        return
    if count < 2:
        print("one GPU: the programs of two are left out")
        return
    with cuda.gpus[0]:
        if not cuda.current_context().can_access_peer(1):
            print("the first two GPUs do not access each other's memory: their programs are left out")
            return
    yield from TWO_GPUS


def measure(program: Callable[[int, int], Result], runs: int, size: int) -> tuple[int, int, float]:
    """Return how many runs gave the expected result, how many different results there were, and the seconds."""
    begun, right, results = time.perf_counter(), 0, set()
    for _ in range(runs):
        found, expected = program(size, -(-size // BLOCK))
        right += found.tobytes() == expected.tobytes()
        results.add(found.tobytes())
    return right, len(results), time.perf_counter() - begun


def main() -> int:
    """Run all programs, and print a table; return 1 if one has another result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--size", type=int, default=1 << 20, help="elements of an array, a multiple of 512")
    given = parser.parse_args()
    begun, rows, failed = time.perf_counter(), [], 0
    print(f"{given.runs} runs of {given.size:,} elements on {cuda.get_current_device().name}")
    for program in (*ONE_GPU, *peer_access()):
        print(f"{time.perf_counter() - begun:6.1f} s: {program.__name__}", flush=True)
        try:
            right, different, seconds = measure(program, given.runs, given.size)
        except Exception as error:  # the other programs still run
            failed += 1
            rows.append(f"{program.__name__:24} {type(error).__name__}: {error}")
            continue
        failed += right < given.runs
        rows.append(f"{program.__name__:24} {right:>3}/{given.runs:<3} {different:>7} {seconds:8.2f}")
    print(f"{'program':24} {'right':>7} {'results':>7} {'seconds':>8}", *rows, sep="\n")
    print("all results are right, bit for bit" if not failed else f"{failed} programs differ")
    print(f"{time.perf_counter() - begun:.1f} s in all")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
