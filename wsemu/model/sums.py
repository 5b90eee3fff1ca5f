"""Programs whose matrix instructions round each sum only once: `--mma exact`."""

from __future__ import annotations

from wsemu.model.data import replace
from wsemu.model.isa import NAMES
from wsemu.model.matrix import FORMATS, GROUP_ROUNDS_ONCE, MMA, ROUNDS_ONCE, WGMMA
from wsemu.model.program import Program

_KEY = "rounds once"
_BITS = {
    **{name: ROUNDS_ONCE for name, shape in MMA.items() if shape.a in FORMATS and not shape.has_factors},
    **{name: GROUP_ROUNDS_ONCE for name, found in WGMMA.items() if found.part.a in FORMATS},
}
"""bit of the aux, for each operation on floats"""


def rounding_once(program: Program) -> Program:
    """Return the program with correctly rounded sums instead of the hardware's sums.  A program without sums is
    returned unchanged."""
    if _KEY not in program.derived:
        code = program.code.copy()
        for row in code:
            row[7] |= _BITS.get(NAMES[row[0]], 0)
        same = bool((code == program.code).all())
        program.derived[_KEY] = program if same else replace(program, code=code)
    made: Program = program.derived[_KEY]
    return made


def rounds_once(program: Program) -> bool:
    """Return whether sums of the program are rounded once."""
    code, opcodes = program.code, [opcode for opcode in program.opcodes if NAMES[opcode] in _BITS]
    return any((code[code[:, 0] == opcode, 7] & _BITS[NAMES[opcode]]).any() for opcode in opcodes)
