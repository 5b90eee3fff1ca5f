"""Random programs of threads that access bytes of one area, in sizes from a byte to a vector, between barriers.

Stores of different threads differ in every byte, so two of them to one byte are a race, and so are a load and a store.
In some programs all stores write one value to each byte, except that some stores have one odd byte. There, two
stores that agree in their common bytes are a `same-value-store`, not a race. Atomic additions are atomic with each
other if they have one width and one address. If a program has no race, the order of its rounds determines the final
contents of memory and the loaded values.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from wsemu.model.settings import Engine

AREA = 32
"""bytes that all threads share"""
PLACES = ("warps", "ctas", "lanes")
SPACES = ("global", "shared")
LOAD, STORE, ADD = "load", "store", "add"
RACES, SAME = {"race", "intra-warp-race"}, "same-value-store"
_SHAPES = ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2))
"""(bytes of an element, elements)"""


class Access(NamedTuple):
    what: str
    size: int
    length: int
    at: int
    """the first byte"""
    generic: bool
    odd: int = -1
    """the byte of a store that differs in programs whose stores are otherwise alike"""

    @property
    def bytes(self) -> range:
        return range(self.at, self.at + self.size * self.length)

    def __str__(self) -> str:
        return (
            f"{self.what} {self.size}x{self.length} at {self.at}"
            + " generic" * self.generic
            + f" odd {self.odd}" * (self.odd >= 0)
        )


class Program(NamedTuple):
    place: str
    space: str
    rounds: tuple[tuple[tuple[Access, ...], ...], ...]
    """the accesses of each thread, round by round; a barrier is between two rounds"""
    alike: bool = False
    """each byte has one value in all stores, but odd ones"""

    def __str__(self) -> str:
        rounds = (" | ".join("; ".join(map(str, own)) for own in lines) for lines in self.rounds)
        return f"{self.place} in {self.space} memory{', alike' * self.alike}: " + " || ".join(rounds)


def byte_program(source: random.Random, place: str = "") -> Program:
    """Return a program of two or three threads, at the given position or a random one."""
    place = place or source.choice(PLACES)
    space = "global" if place == "ctas" else source.choice(SPACES)
    threads = source.choice((2, 2, 3))
    rounds = 1 if place == "ctas" else source.choice((1, 2, 2, 3))
    apart, alike = source.random() < 0.5, source.random() < 0.5
    kinds = (STORE, STORE, STORE, LOAD) if alike else (LOAD, LOAD, STORE, STORE, STORE, ADD)

    def draw_line(n: int) -> tuple[Access, ...]:
        parts = (n, n, n, None) if apart else (None,)
        return tuple(_access(source, source.choice(parts), kinds) for _ in range(source.randrange(3)))

    made = tuple(tuple(draw_line(n) for n in range(threads)) for _ in range(rounds))
    return Program(place, space, made, alike)


def _access(source: random.Random, part: int | None, kinds: tuple[str, ...]) -> Access:
    """Return an access, in a thread's own 8 bytes or anywhere."""
    what = source.choice(kinds)
    size, length = source.choice(((4, 1), (8, 1)) if what == ADD else _SHAPES)
    whole = size * length
    if part is None or whole > 8:
        at = whole * source.randrange(AREA // whole)
    else:
        at = 8 * part + whole * source.randrange(8 // whole)
    odd = at + source.randrange(whole) if what == STORE and source.random() < 0.15 else -1
    return Access(what, size, length, at, source.random() < 0.3, odd)


# -- what it does ------------------------------------------------------------------------------------------------------
class Conflicts(NamedTuple):
    """What two threads do to one byte in one round."""

    race: bool
    same: bool
    """there are stores of one value that nothing orders"""


def find_conflicts(program: Program) -> Conflicts:
    """Return whether two threads touch a byte in one round, one writes, and they are not atomic with each other."""
    found = set[bool]()
    for lines in program.rounds:
        for one, other in itertools.combinations(lines, 2):
            met = [(a, b) for a in one for b in other if _conflict(a, b)]
            found |= {program.alike and _agree(a, b) for a, b in met}
    return Conflicts(False in found, True in found)


def _conflict(one: Access, other: Access) -> bool:
    if one.what == other.what == LOAD or not set(one.bytes) & set(other.bytes):
        return False
    return not (one.what == other.what == ADD and one.bytes == other.bytes)


def _agree(one: Access, other: Access) -> bool:
    """Return whether two accesses are stores of one value in all bytes that both write."""
    common = set(one.bytes) & set(other.bytes)
    values = [{at: _alike_byte(access, at) for at in common} for access in (one, other)]
    return one.what == other.what == STORE and values[0] == values[1]


def _alike_byte(access: Access, at: int) -> int:
    """Return the value that a store writes to a byte in programs whose stores are alike."""
    return 7 * at + 1 + (at == access.odd)


def expected(program: Program) -> tuple[bytes, list[int]]:
    """Return the contents of memory after a program without a race, and the total of each thread."""
    memory, totals = bytearray(AREA), [0] * len(program.rounds[0])
    for lines in program.rounds:
        for n, own in enumerate(lines):
            for number, access in enumerate(own):
                for element in range(access.length):
                    at = access.at + element * access.size
                    held = int.from_bytes(memory[at : at + access.size], "little")
                    if access.what == LOAD:
                        totals[n] = totals[n] * 5 + held & 0xFFFFFFFF
                    else:
                        value = held + 1 if access.what == ADD else _value(program, access, element, n, number)
                        memory[at : at + access.size] = (value % (1 << 8 * access.size)).to_bytes(access.size, "little")
    return bytes(memory), totals


def _value(program: Program, access: Access, element: int, thread: int, number: int) -> int:
    """Return the value that a thread stores in an element: each byte shows which thread it was, or where the byte
    is."""
    first = access.at + element * access.size
    own = (
        [_alike_byte(access, first + k) for k in range(access.size)] if program.alike else [32 * (thread + 1) + number]
    )
    return int.from_bytes(bytes(own) if program.alike else bytes(own) * access.size, "little")


# -- as PTX ------------------------------------------------------------------------------------------------------------
_WHO = {
    "warps": "and.b32 %r3, %r2, 31; setp.ne.u32 %p0, %r3, 0; @%p0 bra done; shr.u32 %r3, %r2, 5;",
    "ctas": "setp.ne.u32 %p0, %r2, 0; @%p0 bra done; mov.u32 %r3, %r1;",
    "lanes": "mov.u32 %r3, %r2;",
}


def write_ptx(program: Program) -> tuple[str, int, int]:
    """Return the program as PTX, the number of CTAs and the threads of each."""
    threads = len(program.rounds[0])
    shared, whole = program.space == "shared", (1 << threads) - 1
    meet = f"bar.warp.sync {whole};" if program.place == "lanes" else "barrier.sync 0;"
    lines = [
        ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 memory, .param .u64 totals)\n{",
        ".reg .pred %p<2>; .reg .b16 %h<4>; .reg .b32 %r<12>, %w<4>; .reg .b64 %d<9>, %e<4>;",
        f".shared .align 16 .b8 area[{AREA}];" * shared,
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r4, 0;",
        "ld.param.u64 %d1, [memory]; ld.param.u64 %d2, [totals];",
        "mov.u64 %d3, area; cvta.shared.u64 %d4, %d3;" if shared else "mov.u64 %d3, %d1; mov.u64 %d4, %d1;",
        _WHO[program.place],
    ]
    if shared:
        zeros = " ".join(f"st.shared.u64 [%d3+{at}], 0;" for at in range(0, AREA, 8))
        lines += [f"setp.ne.u32 %p0, %r3, 0; @%p0 bra begin; {zeros}\nbegin: {meet}"]
    for k, own in enumerate(program.rounds):
        lines += [f"setp.eq.u32 %p0, %r3, {n}; @%p0 bra T{k}_{n};" for n in range(threads)]
        for n, accesses in enumerate(own):
            lines += [f"T{k}_{n}:", *_written(program, accesses, n), f"bra M{k};"]
        lines.append(f"M{k}: " + (meet if k + 1 < len(program.rounds) else ""))
    if shared:  # the last round is over before the first thread copies
        copies = " ".join(f"ld.shared.u64 %d5, [%d3+{at}]; st.global.u64 [%d1+{at}], %d5;" for at in range(0, AREA, 8))
        lines += [f"{meet} setp.ne.u32 %p0, %r3, 0; @%p0 bra left; {copies}\nleft:"]
    lines.append("mul.wide.u32 %d5, %r3, 4; add.u64 %d2, %d2, %d5; st.global.u32 [%d2], %r4;\ndone: ret;\n}")
    shape = {"warps": (1, 32 * threads), "ctas": (threads, 32), "lanes": (1, threads)}[program.place]
    return "\n".join(lines), *shape


def _written(program: Program, accesses: tuple[Access, ...], thread: int) -> Iterator[str]:
    for number, access in enumerate(accesses):
        suffix, base = ("", "%d4") if access.generic else (f".{program.space}", "%d3")
        address, bits = f"[{base}+{access.at}]", 8 * access.size
        if access.what == ADD:
            yield f"red.relaxed.gpu{suffix}.add.u{bits} {address}, 1;"
            continue
        names = [f"{ {1: '%h', 2: '%h', 4: '%w', 8: '%e'}[access.size] }{k}" for k in range(access.length)]
        listed = f"{{{', '.join(names)}}}" if access.length > 1 else names[0]
        vector = f".v{access.length}" * (access.length > 1)
        if access.what == STORE:
            values = [_value(program, access, k, thread, number) for k in range(access.length)]
            yield from (f"mov.b{max(bits, 16)} {name}, {value};" for name, value in zip(names, values, strict=True))
            yield f"st{suffix}{vector}.u{bits} {address}, {listed};"
        else:
            yield f"ld{suffix}{vector}.u{bits} {listed}, {address};"
            for name in names:
                yield f"cvt.u32.u{max(bits, 16)} %r5, {name}; mad.lo.u32 %r4, %r4, 5, %r5;"


# -- judging -----------------------------------------------------------------------------------------------------------
class Judged(NamedTuple):
    """What the model and wsemu report about a program."""

    program: Program
    found: Conflicts
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([str(self.program), *(f"    {line}" for line in self.complaints)])


def judge_bytes(program: Program, engines: tuple[Engine, ...]) -> Judged:
    """Compare wsemu with the model."""
    found, complaints = find_conflicts(program), list[str]()
    wanted = ("failed", set[str]()) if found.race else ("verified", {SAME} if found.same else set())
    source, grid, block = write_ptx(program)
    kernel = wsemu.load_ptx(source)["k"]
    for engine in engines:
        memory, totals = np.zeros(AREA, np.uint8), np.zeros(len(program.rounds[0]), np.uint32)
        report = wsemu.check(kernel, grid, block, (memory, totals), engine=engine)
        codes = {finding.code for finding in report.findings}
        said = report.verdict, codes - RACES - {SAME} if found.race else codes
        if said != wanted or (found.race and not codes & RACES):
            complaints.append(f"{engine}: {report.verdict} {sorted(codes)}, not {wanted}")
        elif not found.race and (memory.tobytes(), totals.tolist()) != expected(program):
            complaints.append(f"{engine}: {memory.tobytes().hex()} {totals.tolist()}, not {expected(program)}")
    return Judged(program, found, complaints)
