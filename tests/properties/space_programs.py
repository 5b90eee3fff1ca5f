"""Random accesses of all sizes, of vectors and through all state spaces, in a kernel and in a function that calls
itself, and what they do: a model in a few lines that has each object's bytes and each object's end."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

import wsemu

SLICE = 48
"""bytes of shared and of global memory of each thread"""
OBJECTS = {"a": 40, "b": 24, "s": SLICE, "g": SLICE}
"""objects of the kernel: two variables of local memory, and a thread's part of shared and of global memory"""
FRAME = {"own": 32, "given": 0}
"""objects of the function: its variable, and what its caller gave it"""
SPACES = {"a": "local", "b": "local", "s": "shared", "g": "global", "own": "local", "given": ""}
MOST_DEPTH = 3


class Access(NamedTuple):
    """One access: `scale` times a thread's number, cut to `bits`, is added to the index."""

    what: str
    store: bool
    size: int
    length: int
    first: int
    scale: int
    bits: int
    form: str
    """`name`, `explicit` or `generic`"""

    def element(self, thread: int) -> int:
        """Return the index of a thread's access, in units of it."""
        return self.first + (thread * self.scale & self.bits)


class Program(NamedTuple):
    """Accesses of the kernel before its call, of the function before and after its own, and whether one is outside."""

    threads: int
    kernel: list[Access]
    before: list[Access]
    behind: list[Access]


class Outside(Exception):
    """An access left its object."""


def draw_program(draw: random.Random) -> Program:
    """Return a program, one half of which have an access that may be outside."""
    parts = [[_draw_access(draw, objects) for _ in range(draw.randint(1, 5))] for objects in (OBJECTS, FRAME, FRAME)]
    if draw.random() < 0.5:
        part = draw.choice(parts)
        inside = [n for n, access in enumerate(part) if access.what not in "sg"]
        if inside:
            at = draw.choice(inside)
            far = draw.choice((-1, -2, -40, 1, 2, 4, 8, 12, 40, 1000, 1 << 22))
            part[at] = part[at]._replace(first=part[at].first + far)
    return Program(draw.choice((7, 32, 40)), *parts)


def _draw_access(draw: random.Random, objects: dict[str, int]) -> Access:
    what = draw.choice([*objects])
    size, count = draw.choice(((1, 1), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (1, 2)))
    room = (objects[what] or FRAME["own"]) // (size * count)
    bits = draw.choice([bits for bits in (0, 0, 1, 3) if bits < room])
    forms = ["generic"] if what == "given" else ["explicit", "generic", "name"]
    form = draw.choice(forms[: 2 + (what in "ab" or what == "own")])
    scale = 0 if form == "name" else draw.choice((1, 3))
    return Access(what, draw.random() < 0.5, size, count, draw.randrange(room - bits * (scale > 0)), scale, bits, form)


# -- the model ---------------------------------------------------------------------------------------------------------
def expected(program: Program) -> list[int] | None:
    """Return what each thread returns, None if an access leaves its object."""
    try:
        return [_of_thread(program, thread) for thread in range(program.threads)]
    except Outside:
        return None


def _of_thread(program: Program, thread: int) -> int:
    held = {name: bytearray(size) for name, size in OBJECTS.items()}
    total = _accesses(program.kernel, held, thread, thread)
    return _call(program, held["a"], thread % MOST_DEPTH, thread, total)


def _call(program: Program, given: bytearray, depth: int, thread: int, total: int) -> int:
    held = {"own": bytearray(FRAME["own"]), "given": given}
    total = _accesses(program.before, held, thread, total)
    if depth:
        total = _call(program, held["own"], depth - 1, thread, total)
    return _accesses(program.behind, held, thread, total)


def _accesses(accesses: list[Access], held: dict[str, bytearray], thread: int, total: int) -> int:
    for number, access in enumerate(accesses):
        memory, whole = held[access.what], access.size * access.length
        at = access.element(thread) * whole
        if at < 0 or at + whole > len(memory):
            raise Outside
        for k in range(access.length):
            place = slice(at + k * access.size, at + (k + 1) * access.size)
            if access.store:
                value = total + number + k
                memory[place] = (value & (1 << 8 * access.size) - 1).to_bytes(access.size, "little")
            else:
                loaded = int.from_bytes(memory[place], "little") & 0xFFFFFFFF
                total = total * 5 + loaded & 0xFFFFFFFF
    return total


# -- PTX ---------------------------------------------------------------------------------------------------------------
def written(program: Program) -> str:
    """Return the program as PTX."""
    zeros = "".join(
        f"st.local.u64 [{name}+{at}], 0;\n" for name in ("a", "b") for at in range(0, OBJECTS[name], 8)
    ) + "".join(f"st.shared.u64 [%rd10+{at}], 0; st.global.u64 [%rd11+{at}], 0;\n" for at in range(0, SLICE, 8))
    frame = "".join(f"st.local.u64 [own+{at}], 0;\n" for at in range(0, FRAME["own"], 8))
    call = "{{ .param .u64 p; .param .u32 d; .param .u32 t; .param .u32 v; .param .u32 q;\n"
    call += "st.param.u64 [p], %rd{}; st.param.u32 [d], %r{}; st.param.u32 [t], %r1; st.param.u32 [v], %r2;\n"
    call += "call (q), f, (p, d, t, v); ld.param.u32 %r2, [q]; }}\n"
    registers = ".reg .pred %p<3>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<30>;\n"
    return f"""
.version 8.8
.target sm_90
.address_size 64
.visible .func (.param .u32 result) f(.param .u64 given, .param .u32 depth, .param .u32 thread, .param .u32 total)
{{
{registers}.local .align 16 .b8 own[{FRAME["own"]}];
ld.param.u64 %rd13, [given]; ld.param.u32 %r3, [depth]; ld.param.u32 %r1, [thread]; ld.param.u32 %r2, [total];
mov.u64 %rd12, own; cvta.local.u64 %rd22, %rd12; mov.u64 %rd23, %rd13;
{frame}{_lines(program.before)}setp.eq.u32 %p1, %r3, 0; @%p1 bra $end; sub.u32 %r3, %r3, 1;
{call.format(22, 3)}$end:
{_lines(program.behind)}st.param.u32 [result], %r2; ret;
}}
.visible .entry k(.param .u64 out, .param .u64 memory)
{{
{registers}.local .align 16 .b8 a[{OBJECTS["a"]}]; .local .align 16 .b8 b[{OBJECTS["b"]}];
.shared .align 16 .b8 s[{SLICE * program.threads}];
mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; mov.u64 %rd8, a; mov.u64 %rd9, b; mov.u64 %rd10, s;
ld.param.u64 %rd11, [memory];
mul.wide.u32 %rd1, %r1, {SLICE}; add.s64 %rd10, %rd10, %rd1; add.s64 %rd11, %rd11, %rd1;
cvta.local.u64 %rd18, %rd8; cvta.local.u64 %rd19, %rd9; cvta.shared.u64 %rd20, %rd10; mov.u64 %rd21, %rd11;
{zeros}{_lines(program.kernel)}rem.u32 %r3, %r1, {MOST_DEPTH};
{call.format(18, 3)}ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r2; ret;
}}
"""


_BASE = {"a": 8, "b": 9, "s": 10, "g": 11, "own": 12, "given": 13}
"""the register of each object's address in its space; the one of its generic address is 10 further"""


def _lines(accesses: list[Access]) -> str:
    lines = []
    for number, access in enumerate(accesses):
        whole = access.size * access.length
        space = f".{SPACES[access.what]}" if access.form != "generic" and SPACES[access.what] else ""
        base = _BASE[access.what] + 10 * (access.form == "generic")
        if access.form == "name":
            address = f"[{access.what}+{access.first * whole}]"
        else:
            lines.append(f"mul.lo.u32 %r4, %r1, {access.scale}; and.b32 %r4, %r4, {access.bits};")
            lines.append(f"mul.wide.u32 %rd2, %r4, {whole}; add.s64 %rd2, %rd{base}, %rd2;")
            address = f"[%rd2+{access.first * whole}]"
        vector = f".v{access.length}" if access.length > 1 else ""
        bits = 8 * access.size
        prefix = {1: "%h", 2: "%h", 4: "%r1", 8: "%rd2"}[access.size]
        names = [f"{prefix}{k + (5 if access.size == 8 else 0)}" for k in range(access.length)]
        listed = f"{{{', '.join(names)}}}" if access.length > 1 else names[0]
        narrow = bits < 32
        if access.store:
            for k, name in enumerate(names):
                lines.append(f"add.u32 %r5, %r2, {number + k}; cvt.u{16 if narrow else bits}.u32 {name}, %r5;")
            lines.append(f"st{space}{vector}.u{bits} {address}, {listed};")
        else:
            lines.append(f"ld{space}{vector}.u{bits} {listed}, {address};")
            for name in names:
                lines.append(f"cvt.u32.u{max(bits, 16)} %r5, {name}; mad.lo.u32 %r2, %r2, 5, %r5;")
    return "\n".join(lines) + "\n" if lines else ""


def outcome(program: Program, engine: str) -> tuple[list[str], list[int], bytes]:
    """Return the codes of the errors of a launch, what its threads returned, and its memory."""
    out = np.zeros(program.threads, np.uint32)
    memory = np.zeros(SLICE * program.threads, np.uint8)
    kernel = wsemu.load_ptx(written(program))["k"]
    report = wsemu.check(kernel, 1, program.threads, (out, memory), engine=engine)  # type: ignore[arg-type]
    return [f.code for f in report.findings if f.severity == "error"], out.tolist(), memory.tobytes()


def judge_spaces(program: Program, engines: tuple[str, ...]) -> tuple[str, bool]:
    """Return what the engines do otherwise than the model, empty if nothing, and whether all accesses are inside."""
    wanted = expected(program)
    inside, code = wanted is not None, set() if wanted is not None else {"out-of-bounds"}
    for engine in engines:
        codes, values, _ = outcome(program, engine)
        if set(codes) != code or (inside and values != wanted):
            return f"{engine}: {codes} {values}, not {code} {wanted}\n{written(program)}", inside
    return "", inside
