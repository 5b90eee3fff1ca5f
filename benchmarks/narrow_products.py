"""Compares `mma.sync` of sm_120 with a published model of the hardware: `benchmarks/narrow_products.py [TILES]`.

Each form of `kind::f8f6f4`, `mxf8f6f4`, `mxf4` and `mxf4nvf4` multiplies TILES random tiles (100).  A third of them
has scale factors near 1, the others have random ones.  Prints how many sums have the same bits; exit code 1 where one
differs.  Needs `mmasim` from PyPI (arXiv 2511.10909), and torch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmasim.nv_ptx.sim import MMA, MMABlockScale

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.test_scaled import FORMS, NARROW, in_container, plain_text, run, values
from wsemu.model.matrix import Mma

TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def elements(shape: Mma, bits: Any, type_: str) -> torch.Tensor:
    """Elements as the model takes them."""
    if shape.kind == "mxf4":
        return torch.from_numpy(values("e2m1")[bits].astype(np.float16))
    some = torch.from_numpy(in_container(shape, bits, type_).astype(np.uint8))
    return some.view(TYPES[type_]) if type_ in TYPES else some


def model(shape: Mma, text: str, a: Any, b: Any, c: Any, of_a: Any, of_b: Any) -> Any:
    """The bits of the sums of the model."""
    left, right = elements(shape, a, shape.a)[:, :, None], elements(shape, b.swapaxes(1, 2).copy(), shape.b)[:, None]
    start = torch.from_numpy(c.astype(np.uint16).view(np.float16) if shape.c == "f16" else c.view(np.float32))
    types = f"{shape.d}.{shape.a}.{shape.b}.{shape.c}"
    with np.errstate(all="ignore"):
        if not shape.has_factors:
            found = MMA("RTX Blackwell", f"m16n8k32.kind::{shape.kind}.{types}").dpa(left, right, start)
        else:
            kind = next(part for part in text.split(".") if part.startswith("kind::"))
            fine, block = text.endswith("ue4m3"), 16 if "4X" in text else 32
            name = f"m16n8k{shape.k}.{kind}.block{block}.{types}.{'ue4m3' if fine else 'ue8m0'}"
            factor = torch.float8_e4m3fn if fine else torch.float8_e8m0fnu
            alpha, beta = (torch.from_numpy(x.astype(np.uint8)).view(factor) for x in (of_a, of_b))
            found = MMABlockScale("RTX Blackwell", name).dpa(left, right, start, alpha[:, :, None], beta[:, None])
    return found.numpy().view(np.uint16 if shape.d == "f16" else np.uint32)


def main() -> int:
    tiles = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    differ = 0
    for number, shape in enumerate(NARROW.values()):
        forms = FORMS if shape.kind == "mxf4" else {plain_text(shape): (1, False)}
        for text, (count, fine) in forms.items():
            generator = np.random.default_rng(number)
            sizes = ((tiles, 16, shape.k), (tiles, shape.k, 8))
            a, b = (
                generator.integers(0, len(values(of)), size) for of, size in zip((shape.a, shape.b), sizes, strict=True)
            )
            c = generator.integers(0, 1 << (16 if shape.c == "f16" else 32), (tiles, 16, 8)).astype(np.uint32)
            near = np.arange(tiles)[:, None, None] % 3 == 0
            low, high = (0x30, 0x48) if fine else (124, 131)
            of_a, of_b = (
                np.where(near, generator.integers(low, high, size), generator.integers(0, 256, size))
                for size in ((tiles, 16, count), (tiles, 8, count))
            )
            if shape.c == "f32":
                c = np.where(near, np.float32(generator.standard_normal(c.shape)).view(np.uint32), c)
            places = in_container(shape, a, shape.a), in_container(shape, b, shape.b)
            d = run(shape, text, *places, c, of_a, of_b, "0 1 0 2", "vm")
            same = int((d == model(shape, text, a, b, c, of_a, of_b)).sum())
            differ += d.size - same
            print(f"{text}: {same:,} of {d.size:,}", flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
