"""Collect the launches that `time_device.py` measures: `python benchmarks/time_launches.py`.

Writes `time/launches.json.gz`: the launches with their arguments, and the PTX of their kernels, so that measuring and
predicting need neither nvcc nor Numba-CUDA.  Collecting needs both.  The kernels are those of `time/fresh.cu` and of
`examples/`.  One third of the launches, chosen by a hash, is held out.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from requirements import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    Sizes = Sequence[tuple[int, ...]]

HERE = Path(__file__).resolve().parent / "time"
ROOT = Path(__file__).resolve().parents[1]
LAUNCHES = HERE / "launches.json.gz"
TILE = 4096
MULTIPROCESSORS = 132
LEAST = {1: 120 * 1024, 2: 80 * 1024, 3: 72 * 1024, 4: 52 * 1024}
"""CTAs of a multiprocessor -> bytes of dynamic shared memory with which no more CTAs fit"""
HELD_OUT = 3
"""one launch in so many is held out"""
_modules: dict[Any, Any] = {}


class Collection:
    """The launches, and the PTX of their kernels."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.launches: list[dict[str, Any]] = []
        self._compiled: dict[Any, str] = {}

    def add_module(self, name: str, text: str) -> None:
        """Add a PTX module without the lines of its debugging information."""
        lines = (line for line in text.splitlines() if not re.match(r"\s*(\.loc\s|\.file\s|//|$)", line))
        text = "\n".join(lines).partition("\t.section")[0]
        self.modules[name] = re.sub(r"^\.version 9\.\d", ".version 9.0", text, flags=re.MULTILINE)

    def add(
        self, family: str, group: str, version: str, module: str, entry: str, grid: Any, block: int, dynamic: int,
        values: Any,
    ) -> None:  # fmt: skip
        """Add a launch; launches of one `group` do the same in different versions."""
        arrays: list[Any] = []
        parameters = [_parameter(value, arrays) for value in values]
        launch = {
            "family": family, "group": group, "version": version, "module": module, "entry": entry,
            "grid": [*grid, 1, 1][:3] if isinstance(grid, tuple) else [grid, 1, 1], "block": block, "dynamic": dynamic,
            "arrays": [[array.nbytes, array.dtype.name] for array in arrays], "parameters": parameters,
        }  # fmt: skip
        key = json.dumps(launch, sort_keys=True).encode()
        launch["held_out"] = int(hashlib.sha256(key).hexdigest(), 16) % HELD_OUT == 0
        self.launches.append(launch)

    def add_python(self, family: str, group: str, kernel: Any, grid: Any, block: int, arguments: Any) -> None:
        """Add a launch of a Python kernel, by the PTX that Numba-CUDA generates."""
        from wsemu import TensorMap
        from wsemu.backends import numba_cuda, offline
        from wsemu.launch.arguments import prepare_arguments

        given = tuple(prepare_arguments(kernel, arguments))
        key = kernel.py_func, *(str(numba_cuda.argument_type(value)) for value in given)
        if key not in self._compiled:
            self._compiled[key] = offline.compile_kernel(kernel, given).ptx
        version, text = kernel.py_func.__name__, self._compiled[key]
        entry = re.search(r"\.entry\s+([\w$]+)", text)
        assert entry is not None
        module = hashlib.sha256(text.encode()).hexdigest()[:12]
        self.add_module(module, text)
        parts = [(value,) if isinstance(value, TensorMap) else offline.pack_arguments((value,)) for value in given]
        values = [part for some in parts for part in some]
        self.add(family, group, version, module, entry[1], grid, block, 0, values)


def _parameter(value: Any, arrays: list[Any]) -> dict[str, Any]:
    from wsemu import TensorMap

    if isinstance(value, TensorMap):
        box, swizzle = [*value.fields.box[::-1]], value.fields.swizzle
        shape, dtype = [*value.array.shape], value.array.dtype.name
        bytes_ = value.encoded(0).hex()
        return {"array": _number(value.array, arrays), "map": bytes_, "box": box, "swizzle": swizzle, "shape": shape,
                "dtype": dtype}  # fmt: skip
    if isinstance(value, np.ndarray):
        return {"array": _number(value, arrays)}
    number = value if isinstance(value, np.generic) else np.int64(value)
    return {"dtype": number.dtype.name, "value": number.item()}


def _number(array: Any, arrays: list[Any]) -> int:
    for number, known in enumerate(arrays):
        if known.ctypes.data == array.ctypes.data:
            return number
    arrays.append(array)
    return len(arrays) - 1


# -- rings ------------------------------------------------------------------------------------------------------------


def add_rings(found: Collection) -> None:
    """Add rings and plain kernels of `fresh.cu`, in sweeps of stages, DMA warps, bytes of an access, threads."""
    found.add_module("fresh", compile_cuda(HERE / "fresh.cu"))
    for names, shapes in RINGS:
        for name in names.split():
            for each, per, it in shapes:
                add_ring(found, name, each, per, it)
    for name, warps in (("any_copy", 8), ("any_words", 8), ("any_sum", 8)):
        for threads in (64, 128, 256, 512, 1024):
            for it in (0, 24):
                _add_block(found, name, threads, 32 * warps, it)


RINGS = (
    ("named_5_1_16 named_5_2_16 named_5_4_16 named_5_8_16", ((1, 192, 0), (2, 24, 16))),
    ("named_3_2_4 named_3_2_8 named_3_4_4", ((1, 64, 0), (2, 96, 8))),
    ("narrow_3_1_16 narrow_3_2_16 narrow_6_1_8 narrow_1_4_16", ((3, 48, 0),)),
    ("large_1_4_16 large_3_2_16 large_3_4_16 large_3_8_16", ((1, 96, 0), (2, 40, 24))),
    ("bulk_5_4096 bulk_7_4096", ((1, 256, 0), (2, 128, 20))),
    ("bulk_5_8192 bulk_6_16384", ((1, 64, 0),)),
    ("slim_1_4096 slim_3_4096 slim_4_4096", ((2, 96, 0),)),
    ("slim_6_2048 slim_2_8192", ((1, 40, 0),)),
    ("cpasync_9 cpasync_10", ((1, 160, 0), (2, 80, 12))),
    ("phased_1_2_16 phased_2_2_16 phased_3_2_16 phased_4_2_16", ((1, 128, 0), (2, 64, 16))),
    ("phased_2_1_16 phased_2_4_16 phased_2_4_8 phased_2_4_4", ((1, 128, 0),)),
    ("lanes_1_1 lanes_2_1 lanes_3_1 lanes_4_1 lanes_6_1", ((1, 128, 0), (2, 48, 8))),
    ("lanes_3_2 lanes_3_4", ((1, 128, 0),)),
    ("both_2_4096 both_3_4096 both_4_4096 both_6_4096", ((1, 128, 0), (2, 64, 8))),
    ("both_3_8192", ((1, 64, 0),)),
    ("axpy_1_4096 axpy_2_4096 axpy_3_4096 axpy_4_4096 axpy_6_4096", ((1, 96, 0), (2, 48, 16))),
    ("dot_1_4096 dot_2_4096 dot_3_4096 dot_4_4096 dot_6_4096", ((1, 96, 0), (2, 192, 0))),
    ("axpy_2_8192 dot_2_8192", ((1, 48, 0),)),
    ("ahead_1 ahead_2 ahead_4", ((2, 64, 0), (4, 32, 16))),
    ("multicast_1_8192 multicast_2_8192 multicast_3_8192 multicast_4_8192", ((1, 64, 0), (2, 48, 12))),
    ("multicast_3_4096", ((1, 128, 0),)),
    ("exchange_tiles", ((1, 64, 0), (2, 64, 0), (4, 32, 16))),
)
"""kernels that one group compares -> (CTAs of a multiprocessor, tiles of a CTA, multiply-adds) of its launches"""
LARGE = {"bulk", "slim", "both", "axpy", "dot", "multicast"}
"""families of kernels whose second number is the size of a tile"""


def add_ring(found: Collection, name: str, each: int, per: int, it: int, module: str = "fresh") -> None:
    """Add a launch of a kernel of `fresh.cu`, or of a module with other instances of its templates."""
    kind, *numbers = name.split("_")
    stages = int(numbers[0]) if numbers[0].isdigit() else 1
    size = int(numbers[1]) if kind in LARGE else 2 * TILE if kind == "large" else TILE
    copies = 2 if kind in ("axpy", "dot") else 1
    compute = 128 if kind in ("narrow", "slim") else 256
    dma = 0 if kind in ("cpasync", "ahead", "exchange") else int(numbers[1]) if kind not in LARGE else 1
    shared = stages * (size * copies + 16) if kind not in ("ahead", "exchange") else 0
    grid = MULTIPROCESSORS * each
    of_cluster = 2 if kind == "multicast" else 1  # CTAs that share a tile, each of which writes its own result
    tiles = grid * per // of_cluster
    sums = 8 * grid if kind == "dot" else 0
    arrays = np.zeros(tiles * size // 4, np.float32), np.zeros(tiles * size // 4 * of_cluster + sums, np.float32)
    family = "clusters" if kind in ("multicast", "exchange") else "plain" if kind == "ahead" else "rings"
    group = f"{kind}{size if kind in LARGE else ''} {each} {per} {it}"
    values = (*arrays, np.int32(tiles), np.int32(it))
    found.add(family, group, name, module, name, grid, compute + 32 * dma, max(shared, LEAST[each]), values)


def _add_block(found: Collection, name: str, threads: int, per: int, it: int) -> None:
    tiles = MULTIPROCESSORS * per
    arrays = np.zeros(tiles * TILE // 4, np.float32), np.zeros(tiles * TILE // 4, np.float32)
    values = (*arrays, np.int32(tiles), np.int32(it))
    grid = MULTIPROCESSORS * 1024 // threads
    found.add("plain", f"{name} {it}", f"{name} of {threads}", "fresh", name, grid, threads, 0, values)


def compile_cuda(path: Path, **changes: str) -> str:
    """Return the PTX of a file with some constants replaced."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes.items():
        text, count = re.subn(rf"\b{old} = \d+", f"{old} = {new}", text)
        assert count == 1, old
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / path.name, Path(folder) / "made.ptx"
        source.write_text(text, encoding="utf-8")
        command = ["nvcc", "-ptx", "-arch=sm_90a", "-std=c++17", f"-I{path.parent}", str(source), "-o", str(made)]
        subprocess.run(command, check=True)
        return made.read_text(encoding="utf-8")


# -- examples ---------------------------------------------------------------------------------------------------------


def add_examples(found: Collection) -> None:
    """Add the kernels of `examples/`."""
    for part in (add_saxpy, add_sgemv, add_stencil, add_dgemm, _add_fft, add_hgemm, add_ampere, add_gemm, add_flash):
        part(found)


def add_saxpy(
    found: Collection, sizes: Sizes = ((264 * 4096 * 8, 0), (264 * 4096 * 8, 24), (264 * 4096 * 64, 4))
) -> None:
    """Add SAXPY: (elements, multiply-adds)."""
    for n, it in sizes:
        x, y = np.zeros(n, np.float32), np.zeros(n, np.float32)
        for kernel, block in example("saxpy").KERNELS:
            found.add_python("saxpy", f"saxpy {n} {it}", kernel, 264, block, (n, np.float32(0.5), x, y, it))


def add_sgemv(found: Collection, sizes: Sizes = ((2048,), (8192,))) -> None:
    """Add SGEMV of square matrices."""
    module = example("sgemv")
    for (n,) in sizes:
        matrix = np.zeros((n, n), np.float32, order="F")
        x, y = np.zeros(n, np.float32), np.zeros(n, np.float32)
        for kernel, block in module.VERSIONS.values():
            grid = n // module.COMPUTE_THREADS
            found.add_python("sgemv", f"sgemv {n}", kernel, grid, block, (n, np.float32(0.75), matrix, x, y))


def add_stencil(found: Collection, sizes: Sizes = ((512, 256, 48), (1024, 1024, 24))) -> None:
    """Add stencils: (x, y, z)."""
    module = example("stencil")
    for x, y, z in sizes:
        values = np.zeros((z + 2 * module.RADIUS, y + 2 * module.RADIUS, x + 2 * module.MARGIN), np.float32)
        result = np.zeros((z, y, x), np.float32)
        for kernel, block in module.versions(values.strides[1]):
            grid = x // module.TILE_X, y // module.TILE_Y
            found.add_python("stencil", f"stencil {x} {y} {z}", kernel, grid, block, (values, result))


def add_dgemm(found: Collection, sizes: Sizes = ((1536,), (3072,))) -> None:
    """Add products of square matrices of doubles."""
    module = example("dgemm")
    for (n,) in sizes:
        arrays = tuple(np.zeros((n, n)) for _ in range(3))
        for kernel, block in module.KERNELS:
            grid = n // module.BLOCK, n // module.BLOCK
            found.add_python("dgemm", f"dgemm {n}", kernel, grid, block, arrays)


def _add_fft(found: Collection) -> None:
    module = example("fft")
    for n, batch, radix, done in (
        (65536, 64, 256, 1),
        (65536, 64, 256, 256),
        (16384, 512, 128, 128),
        (32768, 96, 128, 1),
    ):
        points, result = np.zeros(2 * n * batch, np.float32), np.zeros(2 * n * batch, np.float32)
        twiddles = module.roots_of_unity(np.outer(np.arange(radix), np.arange(done)), done * radix)
        roots = module.roots_of_unity(np.arange(radix), radix)
        tiles = n * batch // module.TILE
        grid = min(-(-tiles // 2), module.MOST_CTAS)
        for kernels, block in module.versions(n).values():
            arguments = (n, done, tiles, points, twiddles, roots, result)
            found.add_python("fft", f"fft {n} {batch} {done}", kernels[radix], grid, block, arguments)


def add_hgemm(found: Collection, sizes: Sizes = ((1024, 1024, 1024), (2048, 2048, 512), (4096, 2048, 1024))) -> None:
    """Add products of halves on `mma.sync`: (m, n, k)."""
    module = example("hgemm")
    for m, n, k in sizes:
        a, b, c = np.zeros((m, k), np.float16), np.zeros((n, k), np.float16), np.zeros((m, n), np.float32)
        for kernel, block, arguments in module.VERSIONS.values():
            grid = n // module.TILE, m // module.TILE
            found.add_python("hgemm", f"hgemm {m} {n} {k}", kernel, grid, block, arguments(a, b, c))


def add_ampere(found: Collection, sizes: Sizes = ((1024, 1024, 1024), (2048, 2048, 2048), (3072, 1024, 512))) -> None:
    """Add products of the Ampere example: (m, n, k)."""
    found.add_module("ampere", (ROOT / "examples/ampere/gemm.sm_80.ptx").read_text(encoding="utf-8"))
    for m, n, k in sizes:
        a, b, c = np.zeros((m, k), np.float16), np.zeros((n, k), np.float16), np.zeros((m, n), np.float32)
        values = (a, b, c, *np.array([m, n, k], np.int32))
        found.add("ampere", f"ampere {m} {n} {k}", "gemm", "ampere", "gemm", (n // 64, m // 64), 128, 65536, values)


def add_gemm(
    found: Collection,
    sizes: Sizes = ((1536, 1536, 1536), (3072, 3072, 3072), (2048, 4096, 1024), (2816, 1536, 4096)),
    depths: Sequence[int] = (2, 3, 4, 5, 6),
) -> None:
    """Add products of the Hopper example: (m, n, k), and stages."""
    from wsemu import TensorMap

    source = ROOT / "examples" / "hopper" / "gemm.cu"
    for stages in depths:
        found.add_module(f"gemm {stages}", compile_cuda(source, STAGES=str(stages)))
        for m, n, k in sizes:
            for name, of_b in (("gemm", 128), ("gemm_pair", 64)):
                if name == "gemm_pair" and (stages not in (3, 4) or (n // 128) % 2):
                    continue
                halves = np.zeros((m, k), np.float16), np.zeros((n, k), np.float16)
                maps = [TensorMap(x, [rows, 64], swizzle="128B") for x, rows in zip(halves, (128, of_b), strict=True)]
                maps.append(TensorMap(np.zeros((m, n), np.float16), [64, 64], swizzle="128B"))
                shared = stages * 2 * 128 * 64 * 2 + 128 * 128 * 2 + 16 * stages
                family = "gemm" if name == "gemm" else "clusters"
                found.add(
                    family, f"{name} {m} {n} {k}", f"{name} of {stages}", f"gemm {stages}", name,
                    (n // 128, m // 128), 384, shared, (*maps, np.int32(k)),
                )  # fmt: skip


def add_flash(
    found: Collection,
    sizes: Sizes = ((16, 1024), (32, 2048), (8, 4096), (66, 512)),
    depths: Sequence[int] = (1, 2, 3, 4),
) -> None:
    """Add attention of the Hopper example: (heads, length), and stages."""
    from wsemu import TensorMap

    source = ROOT / "examples" / "hopper" / "flash.cu"
    for stages in depths:
        found.add_module(f"flash {stages}", compile_cuda(source, STAGES=str(stages)))
        for heads, length in sizes:
            maps = [TensorMap(np.zeros((heads * length, 64), np.float16), [64, 64], swizzle="128B") for _ in range(4)]
            values = (*maps, np.int32(length), np.float32(0.125))
            shared = (2 + 2 * stages) * 8192 + (1 + 4 * stages) * 8
            found.add(
                "flash", f"flash {heads} {length}", f"flash of {stages}", f"flash {stages}", "flash",
                (length // 128, heads), 384, shared, values,
            )  # fmt: skip


def example(name: str, **constants: Any) -> Any:
    """Return an example as a module, with other constants."""
    key = name, tuple(sorted(constants.items()))
    if key not in _modules:
        text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        lines = [_with_constant(line, constants) for line in text.splitlines()]
        path = Path(tempfile.mkdtemp()) / f"{name}_{len(_modules)}.py"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _modules[key] = module
    return _modules[key]


def _with_constant(line: str, constants: dict[str, Any]) -> str:
    name = line.partition(" = ")[0]
    return f"{name} = {constants[name]!r}" if name in constants else line


def main() -> None:
    require("numba_cuda", programs=("nvcc",))
    found = Collection()
    add_rings(found)
    add_examples(found)
    used = {launch["module"] for launch in found.launches}
    made = {"modules": {name: text for name, text in found.modules.items() if name in used}, "launches": found.launches}
    LAUNCHES.write_bytes(gzip.compress(json.dumps(made).encode(), 9, mtime=0))
    held = sum(launch["held_out"] for launch in found.launches)
    print(f"{len(found.launches)} launches, {held} held out, {LAUNCHES.stat().st_size:,} bytes: {LAUNCHES}")


if __name__ == "__main__":
    main()
