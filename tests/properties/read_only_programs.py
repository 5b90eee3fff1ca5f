"""Random PTX kernels that load an array through the read-only cache, by the whole warp or some lanes, side by side, by
one address or apart, and write that array or another one."""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram
from tests.properties.ptx_loop_programs import loaded

__all__ = ["loaded", "program"]

_INDICES = (
    "mov.u32 %r9, %r1;",
    "mov.u32 %r9, {c};",
    "and.b32 %r9, %r1, 15; shr.u32 %r10, %r1, 4; mad.lo.u32 %r9, %r9, {p}, %r10;",
    "shr.u32 %r9, %r1, 1;",
    "xor.b32 %r9, %r1, {c};",
    "mul.lo.u32 %r9, %r1, %r1; and.b32 %r9, %r9, 255;",
    "mad.lo.u32 %r9, %r3, 32, %r1;",
    "sub.u32 %r9, 127, %r1;",
    "sub.u32 %r9, 40, %r1;",
)
_TYPES = (("u32", 4, 1), ("u32", 4, 1), ("u32", 4, 1), ("v2.u32", 4, 2), ("v4.u32", 4, 4), ("u8", 1, 1), ("u16", 2, 1))
_REGISTERS = {1: "%r4", 2: "{%r4, %r5}", 4: "{%r4, %r5, %r6, %r7}"}


def _access(draw: random.Random, often: float) -> str:
    type_, size, n = draw.choice(_TYPES)
    index = draw.choice(_INDICES).format(c=draw.randrange(32), p=draw.choice((2, 8, 9)))
    guard = draw.choice(("", "", "", "@%p2 ", "@!%p2 ", "@%p3 "))
    sign = draw.choice("us")

    def at(base: str) -> str:
        if draw.random() < 0.5:
            return f"{index} mad.wide.{sign}32 %rd4, %r9, {size * n}, {base};"
        return f"{index} mul.wide.{sign}32 %rd3, %r9, {size * n}; add.s64 %rd4, {base}, %rd3;"

    if draw.random() < 0.7:
        how = draw.choice((".nc", ".nc", ""))
        names = _REGISTERS[n] if n == 1 or draw.random() < 0.7 else _REGISTERS[n].replace("%r5", "_")
        return f"{at('%rd1')} {guard}ld.global{how}.{type_} {names}, [%rd4]; add.u32 %r8, %r8, %r4;"
    to = "%rd1" if draw.random() < often else "%rd2"
    far = draw.choice((0, 512, 4096)) if to == "%rd1" else 0
    return f"{at(to)} {guard}st.global.{type_} [%rd4+{far}], {_REGISTERS[n]};"


def program(seed: int) -> LoopProgram:
    """A random one; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    often = draw.choice((0, 0, 0.5))
    body = "\n".join(_access(draw, often) for _ in range(draw.randrange(2, 7)))
    lane = draw.randrange(32)
    source = f"""
.visible .entry k(.param .u32 n, .param .u64 x, .param .u64 z, .param .u64 y, .param .u32 m, .param .u32 a)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<11>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [z];
    ld.param.u32 %r2, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, 0;
    mov.u32 %r8, 0;
    setp.gt.u32 %p2, %r1, {lane};
    setp.gt.u32 %p3, %r2, 3;
LOOP:
{body}
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r2;
    @%p1 bra LOOP;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4+8192], %r8;
    ret;
}}
"""
    return LoopProgram(source, draw.choice((32, 64)), 1)
