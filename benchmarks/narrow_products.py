"""Compares `tcgen05.mma`, and `mma.sync` of sm_120, with a published model of the hardware:
`benchmarks/narrow_products.py [TILES] [--workers N] [--only TEXT]`.

Each form multiplies TILES random tiles of 16 x 8 sums (100).  A third of them has scale factors and accumulators near
1, the others have random bits.  Prints how many sums of a form have the same bits; exit code 1 if one differs.
`--workers` sets the number of processes (1); `--only` selects the forms whose name contains TEXT.  Needs `mmasim` from
PyPI (arXiv 2511.10909), and torch.

`benchmarks/narrow_products.py 100000 --workers 32` compares 100,000 tiles of each form.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import wsemu
from tests.unit.tensor_programs import ISSUE, descriptor, dump, fill, program, with_descriptors
from tests.unit.test_scaled import FORMS, NARROW, in_container, plain_text, run, values
from wsemu.model.matrix import NARROW_FLOATS

CHUNK = 400
"""number of tiles of a form that a process compares at once"""
ROWS, COLUMNS = 16, 8
STACK = 8
"""number of tiles that one `tcgen05.mma` of 128 rows computes; they share b"""
NUMBERS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
"""numbers of types in an instruction descriptor"""
SCALE_A, SCALE_B = 8, 12
"""columns of scale factors after the first column of D"""


class Form(NamedTuple):
    """One instruction with its types."""

    name: str
    kind: str
    k: int
    d: str
    a: str
    b: str
    factors: int = 0
    """number of scale factors of a row; 0 if it has none"""
    fine: bool = False
    """whether the factors are ue4m3"""

    @property
    def of_tensor_memory(self) -> bool:
        return self.name.startswith("tcgen05")

    @property
    def dense(self) -> bool:
        """Return whether two elements are in a byte."""
        return self.kind.startswith("mxf4")


class Operands(NamedTuple):
    """Random operands: elements of a [tiles, 16, k] and b [tiles, k, 8], bits of c, scale factors."""

    a: Any
    b: Any
    c: Any
    of_a: Any
    of_b: Any


def forms() -> list[Form]:
    """Return all forms that the model has."""
    found = []
    for shape in NARROW.values():
        texts = FORMS if shape.kind == "mxf4" else {plain_text(shape): (1, False)}
        for text, (count, fine) in texts.items():
            kind = next(part for part in text.split(".") if part.startswith("kind::")).removeprefix("kind::")
            factors = count if shape.has_factors else 0
            found.append(Form(f"mma.{text}", kind, shape.k, shape.d, shape.a, shape.b, factors, fine))
    plain = [("tf32", 8, "f32", "tf32", "tf32"), ("f16", 16, "f16", "f16", "f16")]
    plain += [("f16", 16, "f32", type_, type_) for type_ in ("f16", "bf16")]
    plain += [("f8f6f4", 32, d, a, b) for d in ("f32", "f16") for a in NARROW_FLOATS for b in NARROW_FLOATS]
    found += [Form(f"tcgen05.mma.kind::{kind}.{d}.{a}.{b}", kind, k, d, a, b) for kind, k, d, a, b in plain]
    scaled = [("mxf8f6f4", "block32", 32, a, b, 1, False) for a in NARROW_FLOATS for b in NARROW_FLOATS]
    scaled += [(kind, "block32", 64, "e2m1", "e2m1", 2, False) for kind in ("mxf4", "mxf4nvf4")]
    scaled += [("mxf4nvf4", "block16", 64, "e2m1", "e2m1", 4, fine) for fine in (False, True)]
    for kind, block, k, a, b, count, fine in scaled:
        name = f"tcgen05.mma.kind::{kind}.{block}.f32.{a}.{b}.{'ue4m3' if fine else 'ue8m0'}"
        found.append(Form(name, kind, k, "f32", a, b, count, fine))
    return found


# -- operands ----------------------------------------------------------------------------------------------------------


def random_operands(form: Form, seed: int) -> Operands:
    generator = np.random.default_rng(seed)
    tiles = CHUNK
    near = np.arange(tiles)[:, None, None] // STACK % 3 == 0
    stacks = -(-tiles // STACK) if form.of_tensor_memory else tiles

    def elements(type_: str, size: tuple[int, ...]) -> Any:
        bits = {"tf32": 32, "f16": 16, "bf16": 16}.get(type_)
        if bits is None:
            return generator.integers(0, len(values(type_)), size)
        one = np.float32(generator.standard_normal(size)).view(np.uint32) >> (16 if type_ == "bf16" else 0)
        if type_ == "f16":
            one = generator.standard_normal(size).astype(np.float16).view(np.uint16)
        return np.where(near[: size[0]], one, generator.integers(0, 1 << bits, size)).astype(np.uint32)

    def shared_columns(random: Any) -> Any:
        return np.repeat(random, STACK, axis=0)[:tiles] if form.of_tensor_memory else random

    a = elements(form.a, (tiles, ROWS, form.k))
    b = shared_columns(elements(form.b, (stacks, form.k, COLUMNS)))
    c = generator.integers(0, 1 << (16 if form.d == "f16" else 32), (tiles, ROWS, COLUMNS)).astype(np.uint32)
    if form.d == "f32":
        c = np.where(near, np.float32(generator.standard_normal(c.shape)).view(np.uint32), c)
    low, high = (0x30, 0x48) if form.fine else (124, 131)

    def factors(size: tuple[int, ...]) -> Any:
        random = np.where(near[: size[0]], generator.integers(low, high, size), generator.integers(0, 256, size))
        return random.astype(np.uint32)

    count = max(form.factors, 1)
    return Operands(a, b, c, factors((tiles, ROWS, count)), shared_columns(factors((stacks, COLUMNS, count))))


# -- wsemu -------------------------------------------------------------------------------------------------------------


def emulated_sums(form: Form, some: Operands) -> Any:
    """Return the bits of the sums that wsemu computes."""
    if form.of_tensor_memory:
        return sums_in_tensor_memory(form, some)
    kind = "mxf4" if form.dense else form.kind
    shape = next(x for x in NARROW.values() if (x.kind, x.d, x.a, x.b) == (kind, form.d, form.a, form.b))
    a, b = in_container(shape, some.a, form.a), in_container(shape, some.b, form.b)
    return run(shape, form.name.removeprefix("mma."), a, b, some.c, some.of_a, some.of_b, "0 1 0 2", "vm")


@functools.cache
def load_kernel(form: Form) -> Any:
    """Compile a kernel whose CTA i multiplies the i-th operands."""
    i = COLUMNS // 8 << 17 | STACK << 24
    i |= (not form.fine) << 23 if form.factors else (form.d == "f32") << 4
    for type_, at in ((form.a, 7), (form.b, 10)):
        i |= (1 if form.dense else NUMBERS[type_]) << at
    block = {0: "", 1: ".block_scale", 2: ".block_scale.block32", 4: ".block_scale.block16"}[form.factors]
    scales = "[%r17], [%r18], " if form.factors else ""
    issued = f"add.u32 %r17, %r11, {SCALE_A}; add.u32 %r18, %r11, {SCALE_B}; "
    issued += f"tcgen05.mma.cta_group::1.kind::{form.kind}{block} [%r11], %rd6, %rd7, %r15, {scales}%p6;"
    where = with_descriptors(descriptor(0, 128, 256), descriptor(4096, 128, 256), i)
    text = program(where, fill(16, 0), ISSUE.format(issued=issued), dump(COLUMNS), shared=6144)
    last = "ld.param.u64 %rd3, [result];"
    for register, size in (("%rd1", 6144), ("%rd2", 128 * 64), ("%rd3", 128 * 4 * COLUMNS)):
        last += f" mov.u32 %r30, %ctaid.x; mul.wide.u32 %rd9, %r30, {size}; add.u64 {register}, {register}, %rd9;"
    return wsemu.load_ptx(text.replace("ld.param.u64 %rd3, [result];", last))["k"]


def core_matrices(form: Form, type_: str, rows: Any) -> Any:
    """Return the bytes of rows [number, rows, k] as an unswizzled operand: pieces of 8 rows and 16 bytes."""
    if form.dense:
        packed = (rows[..., ::2] | rows[..., 1::2] << 4).astype(np.uint8)
    elif form.k == 32:
        width = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(type_, 8)
        bits = np.unpackbits(rows.astype(np.uint8)[..., None], axis=-1, bitorder="little")[..., :width]
        groups = np.packbits(bits.reshape(*rows.shape[:-1], 2, 16 * width), axis=-1, bitorder="little")
        packed = np.zeros((*groups.shape[:-1], 16), np.uint8)
        packed[..., : 2 * width] = groups
        packed = packed.reshape(*rows.shape[:-1], 32)
    else:
        packed = rows.astype(np.uint16 if form.k == 16 else np.uint32).view(np.uint8)
    number, count = packed.shape[:2]
    pieces = packed.reshape(number, count // 8, 8, 2, 16).transpose(0, 1, 3, 2, 4)
    return pieces.reshape(number, count * 32)


def sums_in_tensor_memory(form: Form, some: Operands) -> Any:
    """Return the bits of the sums of `tcgen05.mma`, each of which computes STACK tiles."""
    tiles, rows = len(some.c), ROWS * STACK
    stacks = -(-tiles // STACK)

    def stack(part: Any) -> Any:
        """Return the rows of whole stacks; missing tiles are zero."""
        whole = np.zeros((stacks * STACK, *part.shape[1:]), np.uint32)
        whole[:tiles] = part
        return whole.reshape(stacks, rows, *part.shape[2:])

    source = np.zeros((stacks, 6144), np.uint8)
    source[:, :4096] = core_matrices(form, form.a, stack(some.a))
    b = np.ascontiguousarray(some.b[::STACK].swapaxes(1, 2))
    source[:, 4096 : 4096 + 32 * COLUMNS] = core_matrices(form, form.b, b)
    words = np.zeros((stacks, 128, 16), np.uint32)
    words[:, :, :COLUMNS] = stack(some.c)
    if form.factors:
        shifts = 8 * np.arange(form.factors, dtype=np.uint32)
        of_a = (stack(some.of_a) << shifts).sum(-1).astype(np.uint32).reshape(stacks, 4, 32)
        for quarter in range(4):
            words[:, 32 * quarter : 32 * quarter + 32, SCALE_A : SCALE_A + 4] = of_a.swapaxes(1, 2)
            of_b = (some.of_b[::STACK] << shifts).sum(-1)
            words[:, 32 * quarter : 32 * quarter + COLUMNS, SCALE_B] = of_b
    d = np.zeros((stacks, 128, COLUMNS), np.uint32)
    report = wsemu.check(load_kernel(form), stacks, 128, (source, words, d))
    assert report.verdict == "verified", report
    found = d.reshape(stacks * STACK, ROWS, COLUMNS)[:tiles]
    return (found & 0xFFFF).astype(np.uint16) if form.d == "f16" else found


# -- the model ---------------------------------------------------------------------------------------------------------


@functools.cache
def load_model(form: Form) -> Any:
    from mmasim.nv_ptx import sim

    types = f"{form.d}.{form.a}.{form.b}"
    if form.of_tensor_memory:
        shape = f"m128n{COLUMNS}k{form.k}.kind::{form.kind}"
        types += f".{'ue4m3' if form.fine else 'ue8m0'}" if form.factors else ""
        block = f".block{form.k // form.factors}" if form.factors else ""
        model = sim.TCGen05MMABlockScale if form.factors else sim.TCGen05MMA
        return model("Blackwell", f"{shape}{block}.{types}")
    shape = f"m16n8k{form.k}.kind::{form.kind}"
    if not form.factors:
        return sim.MMA("RTX Blackwell", f"{shape}.{types}.{form.d}")
    factor = "ue4m3" if form.fine else "ue8m0"
    block = f"block{16 if form.factors == 4 else 32}"
    return sim.MMABlockScale("RTX Blackwell", f"{shape}.{block}.{types}.f32.{factor}")


def to_tensor(form: Form, bits: Any, type_: str) -> Any:
    """Return elements in the form that the model expects."""
    import torch

    types = {
        "f16": (np.uint16, torch.float16), "bf16": (np.uint16, torch.bfloat16), "tf32": (np.uint32, torch.float32),
        "e4m3": (np.uint8, torch.float8_e4m3fn), "e5m2": (np.uint8, torch.float8_e5m2),
    }  # fmt: skip
    if form.dense:
        return torch.from_numpy(values("e2m1")[bits].astype(np.float16))
    if type_ in types:
        of_bits, float_ = types[type_]
        return torch.from_numpy(bits.astype(of_bits)).view(float_)
    return torch.from_numpy((bits << (2 if type_ == "e2m1" else 0)).astype(np.uint8))


def modelled_sums(form: Form, some: Operands) -> Any:
    """Return the bits of the sums of the model."""
    import torch

    left = to_tensor(form, some.a, form.a)[:, :, None]
    right = to_tensor(form, np.ascontiguousarray(some.b.swapaxes(1, 2)), form.b)[:, None]
    start = to_tensor(form._replace(k=0, kind=""), some.c, "f16" if form.d == "f16" else "tf32")
    scales = []
    if form.factors:
        factor = torch.float8_e4m3fn if form.fine else torch.float8_e8m0fnu
        of_a, of_b = (torch.from_numpy(x.astype(np.uint8)).view(factor) for x in (some.of_a, some.of_b))
        scales = [of_a[:, :, None], of_b[:, None]]
    with np.errstate(all="ignore"):
        found = load_model(form).dpa(left, right, start, *scales)
    return found.numpy().view(np.uint16 if form.d == "f16" else np.uint32)


# -- all ---------------------------------------------------------------------------------------------------------------


def compare(job: tuple[int, int, int]) -> tuple[int, int, int]:
    """Compare a chunk of a form; return its number, the number of equal sums, and the number of all sums."""
    import torch

    torch.set_num_threads(1)
    number, chunk, tiles = job
    form = ALL[number]
    some = random_operands(form, 1000003 * number + chunk)
    some = Operands(*(part[:tiles] for part in some))
    same = int((emulated_sums(form, some) == modelled_sums(form, some)).sum())
    return number, same, some.c.size


ALL = forms()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tiles", nargs="?", type=int, default=100, help="tiles of each form")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="forms whose name contains this text")
    chosen = parser.parse_args()
    numbers = [number for number, form in enumerate(ALL) if chosen.only in form.name]
    starts = range(0, chosen.tiles, CHUNK)
    jobs = [(number, at // CHUNK, min(CHUNK, chosen.tiles - at)) for number in numbers for at in starts]
    left = dict.fromkeys(numbers, len(starts))
    same, sums = dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 0)
    compare((numbers[0], 0, 1))  # code that all processes need is compiled once
    with multiprocessing.get_context("spawn").Pool(chosen.workers) as pool:
        for number, equal, total in pool.imap_unordered(compare, jobs):
            same[number] += equal
            sums[number] += total
            left[number] -= 1
            if left[number] == 0:
                print(f"{ALL[number].name}: {same[number]:,} of {sums[number]:,}", flush=True)
    print(f"all {len(numbers)} forms: {sum(same.values()):,} of {sum(sums.values()):,}")
    return int(same != sums)


if __name__ == "__main__":
    sys.exit(main())
