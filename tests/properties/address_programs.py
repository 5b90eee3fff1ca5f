"""Random programs of one thread that keep addresses and numbers in registers and in memory, and use them as addresses.

The values are numbers, addresses in shared memory before and after `cvta`, addresses of a variable of the kernel, and
addresses of variables and of `alloca` memory whose functions have returned.  Statements keep and load values, step
through memory, access it, and call functions that use an address from memory and leave their own there.  Some functions
call themselves.  A part of the program runs twice, so that functions get the same memory again.

The oracle executes the program with these kinds in place of numbers.  It is wrong to access shared or local memory at a
number, outside of a variable, or in a variable whose function has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random

    from wsemu.model.settings import Engine

REGISTERS, SLOTS, ROUNDS, BYTES = 3, 4, 2, 64
NUMBER, SHARED, GENERIC, OWN, DEAD = "number", "shared", "generic", "own", "dead"
_HEADER = """.version 8.8
.target sm_90a
.address_size 64
.func f (.reg .b64 %into) { .reg .b64 %p; .local .b32 x[4]; mov.u64 %p, x; st.local.u64 [%into], %p; ret; }
.func h (.reg .b64 %into, .reg .b32 %old) { .reg .b64 %p, %q; .reg .pred %c; .local .b32 x[4]; mov.u64 %p, x;
st.local.u32 [%p], 1; setp.eq.u32 %c, %old, 0; @%c bra LEAVE; ld.local.u64 %q, [%into]; st.local.u32 [%q], 7;
LEAVE: st.local.u64 [%into], %p; ret; }
.func g (.reg .b64 %into, .reg .b32 %n, .reg .b32 %use) { .reg .b64 %p, %q; .reg .b32 %m; .reg .pred %c;
.local .b32 x[4]; mov.u64 %p, x; st.local.u32 [%p], %n; setp.eq.u32 %c, %n, 0; @%c bra LAST; sub.u32 %m, %n, 1;
call g, (%into, %m, %use); ret; LAST: setp.eq.u32 %c, %use, 0; @%c bra LEAVE; ld.local.u64 %q, [%into];
st.local.u32 [%q], 7; LEAVE: st.local.u64 [%into], %p; ret; }
.visible .entry k(.param .u64 out)
{
.reg .b64 %x<3>, %o, %s, %at, %own; .reg .b32 %n, %round; .reg .pred %p;
.shared .align 16 .b8 tile[64]; .local .align 8 .b8 slots[32], own[64];
ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o; mov.u64 %at, slots; mov.u64 %own, own; mov.u32 %round, 0;
mov.u64 %x0, 0; mov.u64 %x1, 0; mov.u64 %x2, 0;
st.local.u64 [slots], 0; st.local.u64 [slots+8], 0; st.local.u64 [slots+16], 0; st.local.u64 [slots+24], 0;
"""
_TEXTS = {
    "number": "mov.u64 %x{0}, {2};",
    "loaded": "ld.global.u64 %x{0}, [%o+64];",
    "shared": "mov.u64 %x{0}, tile; add.u64 %x{0}, %x{0}, {2};",
    "own": "add.u64 %x{0}, %own, {2};",
    "convert": "cvta.shared.u64 %x{0}, %x{0};",
    "step": "add.u64 %x{0}, %x{0}, 4;",
    "keep": "st.local.u64 [slots+{1}], %x{0};",
    "load": "ld.local.u64 %x{0}, [slots+{1}];",
    "store in shared": "st.shared.u32 [%x{0}], 5;",
    "store": "st.u32 [%x{0}], 5;",
    "store in local": "st.local.u32 [%x{0}], 5;",
    "leave": "add.u64 %s, %at, {1}; call f, (%s);",
    "use and leave": "add.u64 %s, %at, {1}; call h, (%s, %round);",
    "leave deep": "add.u64 %s, %at, {1}; call g, (%s, 2, 0);",
    "use deep": "add.u64 %s, %at, {1}; call g, (%s, 1, 1);",
    "allocate": "stacksave.u64 %s; alloca.u64 %x{0}, 16; st.local.u32 [%x{0}], 3; stackrestore.u64 %s;",
}
"""statement -> its PTX, with a register, the distance of a slot, and a number"""
_FORMS = {"store in shared": SHARED, "store": GENERIC, "store in local": OWN}
"""access -> the kind of address that it needs"""


class Statement(NamedTuple):
    kind: str
    register: int
    slot: int
    number: int

    def __str__(self) -> str:
        return _TEXTS[self.kind].format(self.register, 8 * self.slot, self.number)


class UnfitError(Exception):
    """The program uses an address in a form that the analysis does not follow through memory, or both a number and an
    address in one access."""


class AddressProgram(NamedTuple):
    statements: tuple[Statement, ...]
    repeated: int
    """number of the first statement of those that are executed twice"""

    def ptx(self) -> str:
        first, again = self.statements[: self.repeated], self.statements[self.repeated :]
        rounds = f"add.u32 %round, %round, 1; setp.lt.u32 %p, %round, {ROUNDS}; @%p bra AGAIN;"
        return "\n".join((_HEADER, *map(str, first), "AGAIN:", *map(str, again), rounds, "ret;", "}"))

    def fails(self) -> bool:
        """Whether an access is wrong; raise UnfitError if the form of an address is."""
        registers: list[tuple[str, int]] = [(NUMBER, 0)] * REGISTERS
        slots: list[tuple[str, int]] = [(NUMBER, 0)] * SLOTS
        wrong, count = False, len(self.statements)
        met: dict[int, bool] = {}
        order = [*range(self.repeated), *(k for _ in range(ROUNDS) for k in range(self.repeated, count))]
        for position, k in enumerate(order):
            one, n = self.statements[k], int(position >= count)
            kind, at = registers[one.register]
            if one.kind in _FORMS and met.setdefault(k, kind == NUMBER) != (kind == NUMBER):
                raise UnfitError
            if one.kind in (NUMBER, "loaded", SHARED, OWN):
                found = (NUMBER, 16) if one.kind == "loaded" else (one.kind, one.number)
                registers[one.register] = found
            elif one.kind == "convert":
                if kind in (GENERIC, OWN, DEAD):
                    raise UnfitError
                registers[one.register] = (GENERIC if kind == SHARED else NUMBER), at
            elif one.kind == "step":
                registers[one.register] = kind, at + 4
            elif one.kind == "keep":
                slots[one.slot] = kind, at
            elif one.kind == "load":
                registers[one.register] = slots[one.slot]
            elif one.kind == "allocate":
                registers[one.register] = DEAD, 0
            elif one.kind in _FORMS:
                wrong |= _is_wrong(kind, at, _FORMS[one.kind])
            else:
                if one.kind == "use deep" or (one.kind == "use and leave" and n):
                    kind, at = slots[one.slot]
                    wrong |= _is_wrong(kind, at, OWN)
                slots[one.slot] = DEAD, 0
        return wrong


def _is_wrong(kind: str, at: int, form: str) -> bool:
    """Whether an access that needs an address of a form is wrong at this one."""
    if kind not in (form, NUMBER) and not (kind == DEAD and form == OWN):
        raise UnfitError
    return kind != form or not 0 <= at <= BYTES - 4


def draw_addresses(source: random.Random) -> AddressProgram:
    """A random program whose addresses have forms that accesses need."""
    while True:
        count = source.randrange(3, 10)
        program = AddressProgram(
            tuple(
                Statement(
                    source.choice([*_TEXTS, *_FORMS, "keep", "load", "shared", "own"]), source.randrange(REGISTERS),
                    source.randrange(SLOTS), 4 * source.randrange(BYTES // 4),
                )
                for _ in range(count)
            ),
            source.randrange(count),
        )  # fmt: skip
        try:
            wrong = program.fails()
        except UnfitError:
            continue
        if not wrong or source.random() < 0.6:
            return program


class JudgedAddresses(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: AddressProgram
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}:\n{self.program.ptx()}"


def judge_addresses(program: AddressProgram, engines: tuple[Engine, ...]) -> JudgedAddresses:
    """Compare wsemu's verdicts with those of the oracle."""
    fails, kernel = program.fails(), wsemu.load_ptx(program.ptx())["k"]
    verdicts, complaints = [], []
    for engine in engines:
        out = np.full(16, 16, np.uint64)
        report = wsemu.check(kernel, 1, 1, (out,), engine=engine, budget=20_000)
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified":
            complaints.append(f"{engine}: missed")
        if not fails and report.verdict == "failed":
            complaints.append(f"{engine}: false alarm")
    if len(set(verdicts)) > 1:
        complaints.append(f"engines differ: {verdicts}")
    return JudgedAddresses(program, fails, tuple(verdicts), tuple(complaints))
