"""Every form of arithmetic, logic, comparison and conversion of PTX, on both engines, against exact arithmetic.

The forms and their meaning are in `ptx_forms`.  Forms with operands of the same types share a kernel: thread i takes
the i-th sample of each operand, computes all forms and stores the results.
"""

from __future__ import annotations

import functools
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import wsemu

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.unit.ptx_exact import FORMATS, is_nan
from tests.unit.ptx_forms import ALL, BITS, Form

SAMPLES = {"vm": 256, "reference": 32}
"""threads, by engine: the same samples, of which the slow one takes the first"""
Group = tuple[str, ...]
GROUPS: dict[Group, list[Form]] = {}
for _form in ALL:
    GROUPS.setdefault(_form.operands, []).append(_form)
_BITS = {**BITS, "place": 32, "count": 32, "field": 32}


# -- samples -----------------------------------------------------------------------------------------------------------
def _float_edges(t: str) -> list[int]:
    """Zeros, subnormals, ones, halves, the range of integers, the largest, infinities, nans; each also negative."""
    f = FORMATS[t]
    one, unit = f.infinity // 2 + (1 << (f.precision - 2)) & ~((1 << (f.precision - 1)) - 1), 1 << (f.precision - 1)
    edges = [0, 1, unit - 1, unit, unit + 1, one - 1, one, one + 1, one + unit // 2, one + unit, one - unit]
    edges += [f.infinity - 1, f.infinity, f.infinity + 1, f.infinity + unit // 2, one + 2 * unit + unit // 4]
    edges += [one + k * unit for k in (7, 8, 15, 16, 31, 32, 63, 64) if one + k * unit < f.infinity]
    edges += [one + k * unit - 1 for k in (8, 16, 31, 32, 63, 64) if one + k * unit < f.infinity]
    edges += [one - k * unit for k in (13, 14, 15, 24, 25) if k * unit < one]
    return edges + [edge | f.sign for edge in edges]


def _edges(t: str) -> list[int]:
    if t in FORMATS:
        return _float_edges(t)
    n = _BITS[t]
    ends = [(1 << n) - 1, (1 << n) - 2, 1 << (n - 1), (1 << (n - 1)) - 1, (1 << (n - 1)) + 1]
    return [0, 1, 2, 3, 5, 7, 8, n - 1, n, n + 1, 127, 128, 255, *ends]


def sample(t: str, rng: random.Random) -> int:
    """One operand."""
    n = _BITS[t]
    if t == "p":
        return rng.getrandbits(1)
    if t == "field":
        return rng.choice((0, 1, 8, 31, 32, 63, 64, 255, rng.randrange(256), rng.randrange(64)))
    if t == "place":
        return rng.randrange(32)
    if t == "count":
        return rng.choice((0, 1, 1, 2, 3, 9, 40, -1, -1, -2, -7, -33)) & 0xFFFFFFFF
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(_edges(t)) & ((1 << n) - 1)
    if kind < 0.65 and n > 16:  # narrow numbers, so that shifts, fields and quotients are not all trivial
        return rng.getrandbits(6)
    if t in ("f32", "f64") and kind < 0.8:  # numbers of like size
        f = FORMATS[t]
        one = _float_edges(t)[6]
        return one + rng.randrange(-20, 70) * (1 << (f.precision - 1)) + rng.getrandbits(f.precision - 1) | rng.choice(
            (0, f.sign)
        )
    return rng.getrandbits(n)


@functools.cache
def samples(group: Group) -> list[list[int]]:
    """Operands of the threads; the first pairs are equal."""
    count = SAMPLES["vm"]
    rng = random.Random(" ".join(group))
    columns = [[sample(t, rng) for _ in range(count)] for t in group]
    for k in range(0, count, 16):
        for column, t in zip(columns[1:], group[1:], strict=True):
            if t == group[0]:
                column[k] = columns[0][k]
    return columns


# -- kernels -----------------------------------------------------------------------------------------------------------
def _register_type(t: str) -> str:
    n = max(_BITS[t], 16) if _BITS[t] > 1 else 1
    return "pred" if n == 1 else f"b{n}"


def _load(name: str, t: str, number: int) -> list[str]:
    """Declare a register and load it with the thread's operand."""
    kind = _register_type(t)
    lines = [f".reg .{kind} {name};", f"ld.param.u64 %base, [operand{number}];", "add.u64 %base, %base, %at;"]
    if kind == "pred":
        return [*lines, "ld.global.u32 %word, [%base];", f"setp.ne.u32 {name}, %word, 0;"]
    return [*lines, f"ld.global.{kind} {name}, [%base];"]


def _result(form: Form) -> tuple[str, int]:
    """(type, bits) of the register of a result."""
    t = form.result.partition(">")[2] or form.result
    return t, _BITS[t]


def _store(form: Form, name: str, place: str) -> list[str]:
    n = _result(form)[1]
    if n == 1:
        return [f"selp.u32 %word, 1, 0, {name};", f"st.global.u32 {place}, %word;"]
    return [f"st.global.b{n} {place}, {name};"]


def kernel(entry: str, group: Group, forms: list[Form], count: int) -> str:
    """PTX that computes `forms`: the result of form k for thread i goes to results[k * count + i]."""
    lines = [".reg .b32 %word, %block, %thread;", ".reg .b64 %base, %at, %results, lo64;"]
    lines += ["mov.u32 %block, %ctaid.x;", "mov.u32 %thread, %tid.x;", "mad.lo.u32 %word, %block, 32, %thread;"]
    lines += ["mul.wide.u32 %at, %word, 8;"]
    names = ["%a", "%b", "%c"][: len(group)]
    for number, (name, t) in enumerate(zip(names, group, strict=True)):
        lines += _load(name, t, number)
    lines += ["ld.param.u64 %results, [results];", "add.u64 %results, %results, %at;"]
    for k, form in enumerate(forms):
        registers = dict(zip("abc", names, strict=False))
        lines += ["{", f".reg .{_register_type(_result(form)[0])} d;", ".reg .pred p, q;", ".reg .b32 lo, hi;"]
        lines += [".reg .b16 h0, h1, h2;", form.text.format(d="d", **registers)]
        lines += [*_store(form, "d", f"[%results+{8 * count * k}]"), "}"]
    parameters = ", ".join([*(f".param .u64 operand{n}" for n in range(len(group))), ".param .u64 results"])
    return "\n".join([f".visible .entry {entry}({parameters})", "{", *lines, "ret;", "}"])


def module(groups: dict[Group, list[Form]], count: int, target: str = "sm_90") -> str:
    """A PTX file with a kernel for each group, `group0`, `group1`, ..."""
    head = f".version 8.6\n.target {target}\n.address_size 64"
    entries = [kernel(f"group{k}", group, forms, count) for k, (group, forms) in enumerate(groups.items())]
    return "\n\n".join([head, *entries]) + "\n"


# -- the test ----------------------------------------------------------------------------------------------------------
def agrees(form: Form, got: int, want: int) -> bool:
    """Equal bits; f64 nans are alike, and approximations may be off by some units in the last place."""
    if got == want:
        return True
    t = form.result
    if t == "f64":
        return is_nan(got, t) and is_nan(want, t)
    return t in FORMATS and form.ulps > 0 and not is_nan(want, t) and abs(got - want) <= form.ulps


@functools.cache
def meant(form: Form, operands: tuple[int, ...]) -> int:
    """The result by the ISA, worked out once for both engines."""
    return int(form.meaning(*operands))


def mistakes(group: Group, forms: list[Form], count: int, results: np.ndarray) -> list[str]:
    """What differs, one line for each form, with the first sample that shows it."""
    threads = [*zip(*samples(group), strict=True)]
    found = []
    for form, row in zip(forms, results.tolist(), strict=True):
        mask = (1 << _result(form)[1]) - 1
        for i, operands in enumerate(threads[:count]):
            want = meant(form, operands) & mask
            if not agrees(form, row[i] & mask, want):
                found.append(f"{form.name} {[hex(x) for x in operands]}: {row[i] & mask:#x}, not {want:#x}")
                break
    return found


def operand_arrays(group: Group, count: int) -> list[np.ndarray]:
    return [np.array(column[:count], np.uint64) for column in samples(group)]


@pytest.fixture(scope="module", params=["vm", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kernels(engine: str) -> wsemu.PtxModule:
    return wsemu.load_ptx(module(GROUPS, SAMPLES[engine]))


@pytest.mark.parametrize("number", range(len(GROUPS)), ids=["-".join(group) for group in GROUPS])
def test_forms_compute_what_the_isa_says(engine: str, kernels: wsemu.PtxModule, number: int) -> None:
    group, forms = list(GROUPS.items())[number]
    count = SAMPLES[engine]
    results = np.zeros((len(forms), count), np.uint64)
    arguments = [*operand_arrays(group, count), results]
    report = wsemu.check(kernels[f"group{number}"], count // 32, 32, arguments, engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    assert not mistakes(group, forms, count, results)
