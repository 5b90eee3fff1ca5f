"""Compare fetches from textures on a GPU and on the emulator, word by word: `python -m benchmarks.device_textures
[--cases N] [--seed N]`.

Each case selects a random texture (1-D, 2-D, 3-D, layers; type, filter, address mode, normalized or not) and 4,096
positions in and around it.  Prints the cases that differ, and a table by shape and filter.
"""

from __future__ import annotations

import argparse
import ctypes
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import wsemu
from benchmarks.device_bits import Gpu

_FETCHES, _BLOCK = 4096, 128
_FORMATS = {"uint8": 1, "uint16": 2, "int16": 9, "float16": 16, "float32": 32}
_MODES = ("wrap", "clamp", "mirror", "border")
_LAYERED, _NORMALIZED, _LAYERS = 1, 2, 5
_COORDINATES = {
    "1d": "{%f1}", "2d": "{%f1,%f2}", "3d": "{%f1,%f2,%f3,%f3}", "a1d": "{%r8,%f2}", "a2d": "{%r8,%f1,%f2,%f2}",
}  # fmt: skip
_TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 handle, .param .u64 x, .param .u64 y, .param .u64 z, .param .u64 out) {
.reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<20>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;
mul.wide.u32 %rd9, %r1, 4; mul.wide.u32 %rd8, %r1, 16; ld.param.u64 %rd1, [handle];
ld.param.u64 %rd2, [x]; add.u64 %rd2, %rd2, %rd9; ld.global.f32 %f1, [%rd2];
ld.param.u64 %rd2, [y]; add.u64 %rd2, %rd2, %rd9; ld.global.f32 %f2, [%rd2];
ld.param.u64 %rd2, [z]; add.u64 %rd2, %rd2, %rd9; ld.global.f32 %f3, [%rd2]; cvt.rzi.s32.f32 %r8, %f3;
tex.SHAPE.v4.f32.f32 {%r4,%r5,%r6,%r7}, [%rd1, COORDINATES];
ld.param.u64 %rd3, [out]; add.u64 %rd3, %rd3, %rd8; st.global.v4.b32 [%rd3], {%r4,%r5,%r6,%r7}; ret; }
"""


class Case(NamedTuple):
    """A texture, and the positions from which it is fetched."""

    shape: str
    texels: npt.NDArray[Any]
    filter: str
    mode: str
    normalized: bool
    places: list[npt.NDArray[np.float32]]
    """x, y and z of each fetch; for layered textures z is the layer"""

    @property
    def text(self) -> str:
        return _TEXT.replace("SHAPE", self.shape).replace("COORDINATES", _COORDINATES[self.shape])


def drawn(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    shape = str(rng.choice([*_COORDINATES]))
    dimensions, layered = int(shape[-2]), shape[0] == "a"
    extents = [int(n) for n in rng.integers(2, 40 if dimensions < 3 else 14, dimensions)]
    type_ = str(rng.choice([*_FORMATS]))
    whole = [*([_LAYERS] if layered else []), *extents[::-1]]
    texels = _texels(rng, type_, whole)
    normalized = bool(rng.integers(2))
    mode = str(rng.choice(_MODES if normalized else _MODES[1::2]))
    places = [np.zeros(_FETCHES, np.float32) for _ in range(3)]
    first = 1 if shape == "a1d" else 0
    for axis, extent in enumerate(extents, first):
        places[axis] = (rng.uniform(-2, 3, _FETCHES) * (1 if normalized else extent)).astype(np.float32)
    if layered:
        places[2] = rng.integers(0, _LAYERS + 2, _FETCHES).astype(np.float32)
    return Case(shape, texels, str(rng.choice(["point", "linear"])), mode, normalized, places)


def _texels(rng: np.random.Generator, type_: str, whole: list[int]) -> npt.NDArray[Any]:
    if type_.startswith("float"):
        return rng.standard_normal(whole).astype(type_)
    limits = np.iinfo(type_)
    return rng.integers(limits.min, limits.max, whole, type_, endpoint=True)


def here(case: Case) -> npt.NDArray[np.uint32]:
    """Return the words of each fetch, from the emulator."""
    out = np.zeros((_FETCHES, 4), np.uint32)
    how: dict[str, Any] = {} if case.texels.dtype.kind == "f" else {"read": "normalized"}
    layered = case.shape[0] == "a"
    texture = wsemu.Texture(
        case.texels, filter=case.filter, address=case.mode, normalized=case.normalized, layered=layered, **how
    )  # fmt: skip
    kernel = wsemu.load_ptx(case.text)["k"]
    report = wsemu.check(kernel, _FETCHES // _BLOCK, _BLOCK, (texture, *case.places, out), checkers=["bounds"])
    if report.findings or report.reasons:
        raise RuntimeError(f"{case.shape}: {report.findings or report.notes}")
    return out


# -- on a GPU ----------------------------------------------------------------------------------------------------------
class _Array(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR"""

    _fields_ = (
        ("extents", ctypes.c_size_t * 3),
        *((name, ctypes.c_uint) for name in ("format", "channels", "flags")),
    )  # fmt: skip


class _Side(ctypes.Structure):
    """One side of a CUDA_MEMCPY3D"""

    _fields_ = (
        ("at", ctypes.c_size_t * 4), ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t),
    )  # fmt: skip


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = (("source", _Side), ("target", _Side), ("extents", ctypes.c_size_t * 3))


class _Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC"""

    _fields_ = (
        ("type", ctypes.c_int),
        ("array", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_uint),
        ("end", ctypes.c_uint),
    )


class _Described(ctypes.Structure):
    """CUDA_TEXTURE_DESC"""

    _fields_ = (
        ("modes", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint), ("rest", ctypes.c_int * 20),
    )  # fmt: skip


_HOST, _OF_ARRAY = 1, 3
"""CUmemorytype"""


def there(gpu: Gpu, case: Case) -> npt.NDArray[np.uint32]:
    """Return the words of each fetch, from the GPU."""
    out = np.zeros((_FETCHES, 4), np.uint32)
    rooms = [gpu.room(array.nbytes) for array in (*case.places, out)]
    for room, array in zip(rooms, case.places, strict=False):
        gpu.put(room, array)
    texture = ctypes.c_uint64(_texture(gpu, case))
    arguments = [texture, *(ctypes.c_uint64(room) for room in rooms)]
    gpu.launch(gpu.function(case.text, "k"), _FETCHES // _BLOCK, _BLOCK, 0, arguments)
    gpu.get(out, rooms[-1])
    for room in rooms:
        gpu.done(gpu.driver.cuMemFree_v2(ctypes.c_uint64(room)))
    gpu.done(gpu.driver.cuTexObjectDestroy(texture))
    return out


def _texture(gpu: Gpu, case: Case) -> int:
    resource = _Resource(type=0)
    resource.array[0] = _array(gpu, case)
    dimensions = int(case.shape[-2])
    modes = [_MODES.index(case.mode)] * dimensions + [_MODES.index("clamp")] * (3 - dimensions)
    described = _Described(
        modes=(ctypes.c_int * 3)(*modes),
        filter=case.filter == "linear",
        flags=_NORMALIZED * case.normalized,
    )
    found = ctypes.c_uint64()
    made = gpu.driver.cuTexObjectCreate(ctypes.byref(found), ctypes.byref(resource), ctypes.byref(described), None)
    gpu.done(made)
    return found.value


def _array(gpu: Gpu, case: Case) -> int:
    """Return texels in an array of the driver."""
    sizes = case.texels.shape[::-1]
    layered = case.shape[0] == "a"
    extents = [sizes[0], 0, sizes[1]] if case.shape == "a1d" else [*sizes, 0, 0][:3]
    array = ctypes.c_void_p()
    kind = _FORMATS[str(case.texels.dtype)]
    wanted = _Array((ctypes.c_size_t * 3)(*extents), kind, 1, _LAYERED if layered else 0)
    gpu.done(gpu.driver.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(wanted)))
    row, rows = extents[0] * case.texels.itemsize, max(extents[1], 1)
    source = _Side(type=_HOST, host=case.texels.ctypes.data, pitch=row, height=rows)
    target = _Side(type=_OF_ARRAY, array=array)
    copy = _Copy(source, target, (ctypes.c_size_t * 3)(row, rows, max(extents[2], 1)))
    gpu.done(gpu.driver.cuMemcpy3D_v2(ctypes.byref(copy)))
    return array.value or 0


def main() -> None:
    """Compare the requested cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    gpu = Gpu()
    words: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.cases):
        case = drawn(seed)
        kind = f"{case.shape} {case.filter} {case.texels.dtype}"
        ours, theirs = here(case), there(gpu, case)
        differ = int((ours != theirs).sum())
        words[kind] += ours.size
        apart[kind] += differ
        if differ:
            at = int(np.argmax((ours != theirs).any(axis=1)))
            place = [float(rows[at]) for rows in case.places]
            print(
                f"seed {seed}: {kind}, {case.mode}: {differ} words differ;",
                place,
                ours[at],
                "here,",
                theirs[at],
                "there",
            )
    print(f"{gpu.name()}: {sum(apart.values())} of {sum(words.values()):,} words differ")
    for kind, count in sorted(words.items()):
        print(f"{kind:24} {apart[kind]:8} of {count:,}")


if __name__ == "__main__":
    main()
