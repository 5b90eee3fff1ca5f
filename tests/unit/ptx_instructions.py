"""Forms of PTX instructions as statements: those that move data, synchronize or control, and those of `ptx_forms`.

Each line of `tests/data/ptx_forms.txt` is a statement over `REGISTERS`; `{a|b}` stands for one line with each choice.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.ptx_forms import ALL, BITS

REGISTERS = """
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<200>; .reg .f64 %d<20>; .reg .b64 %rd<20>;
.reg .b128 %q<4>; .shared .align 128 .b8 tile[1024]; .local .align 16 .b8 own[64];
"""

_FORMS = (Path(__file__).parents[1] / "data" / "ptx_forms.txt").read_text(encoding="utf-8")

_PLACES = {"b32": "r4", "u32": "r4", "s32": "r4", "f32": "f1", "b64": "rd4", "u64": "rd4", "s64": "rd4", "f64": "d1"}
_PLACES |= {"f16": "h1", "bf16": "h1", "f16x2": "r4", "bf16x2": "r4"}
_VECTORS = {".v2": 2, ".v4": 4}
_LISTS = {
    "x1": "{%r4}", "x2": "{%r4,%r5}", "x4": "{%r4,%r5,%r6,%r7}", "1d": "{%r4}", "2d": "{%r4,%r5}", "3d": "{%r4,%r5,%r6}"
}  # fmt: skip
_TWO, _FOUR, _EIGHT = "{%d9,%d10}", "{%d9,%d10,%d11,%d12}", "{%d9,%d10,%d11,%d12,%d13,%d14,%d15,%d16}"


def instructions() -> Iterator[str]:
    """Each form, as a statement."""
    for line in _FORMS.strip().splitlines():
        # braces of operand lists hold commas and no bar
        parts = re.split(r"\{([^{},]*\|[^{},]*)\}", line)
        choices = [part.split("|") if n % 2 else [part] for n, part in enumerate(parts)]
        for chosen in itertools.product(*choices):
            yield _filled("".join(chosen))


def _filled(text: str) -> str:
    """The statement with registers for the placeholders, by its modifiers."""
    opcode = text.partition(" ")[0]
    modifiers = opcode.split(".")
    type_ = next((m for m in reversed(modifiers) if m in _PLACES), "b32")
    place = _PLACES[type_]
    width = next((n for m, n in _VECTORS.items() if m in opcode), 1)
    same = next((m for m in modifiers if m in ("tf32", "bf16", "f16")), "")
    kept = next((m for m in modifiers if m in _LISTS), "")
    wide = "tf32" in modifiers
    values = {
        "%V": ",".join(f"%r{4 + n}" for n in range(width)).join("{}"),
        "%W": f"%{place}" if width == 1 else ",".join([f"%{place}"] * width).join("{}"),
        "%R": f"%{place}", "%S": f"%{place}", "%Q": "%q2, %q3" if ".cas" in opcode else "%q2",
        "%A8": "{%r4,%r5,%r6,%r7}" if wide else "{%r4,%r5}", "%B8": "{%r8,%r9}" if wide else "{%r8}",
        "%AD": {"m16n8k4": _TWO, "m16n8k8": _FOUR}.get(modifiers[3] if len(modifiers) > 3 else "", _EIGHT),
        "%BD": {"m16n8k4": "{%d17}", "m16n8k8": "{%d17,%d18}"}.get(
            modifiers[3] if len(modifiers) > 3 else "", "{%d17,%d18,%d19,%d0}"
        ),
        "%SAME": same, "%M": _LISTS.get(kept, ""), "%X": _LISTS.get(kept, ""),
        "%A": "%r3" if "shared" in opcode else "%rd5", "%T": "0" if "parity" in opcode else "%rd4",
    }  # fmt: skip
    for name in sorted(values, key=len, reverse=True):
        text = re.sub(rf"{name}(?![A-Za-z0-9_])", values[name], text)
    return text


def _register_type(t: str) -> str:
    bits = BITS.get(t.partition(">")[2] or t, 32)
    return "pred" if bits == 1 else f"b{max(bits, 16)}"


def _arithmetic() -> Iterator[tuple[str, str]]:
    """Name and statement of each form of `ptx_forms`, with registers of its own."""
    names = ("%xa", "%xb", "%xc")
    for form in ALL:
        own = " ".join(f".reg .{_register_type(t)} {name};" for name, t in zip(names, form.operands, strict=False))
        own += f" .reg .{_register_type(form.result)} d; .reg .pred p, q; .reg .b32 lo, hi, %word;"
        text = form.text.format(d="d", **dict(zip("abc", names, strict=False))).replace("\n", " ")
        yield form.name, f"{{ {own} .reg .b16 h0, h1, h2; .reg .b64 lo64; {text} }}"


def statements() -> dict[str, str]:
    """Each form by name."""
    found = {text: text for text in instructions()}
    for name, text in _arithmetic():
        found.setdefault(name, text)
    return found


def module(lines: list[str], target: str, version: str) -> str:
    """A kernel of statements, a line each, from line `FIRST_LINE` on."""
    registers = REGISTERS.replace("\n", " ")
    head = [f".version {version}", f".target {target}", ".address_size 64", ".visible .entry k(.param .u64 out)"]
    return "\n".join([*head, f"{{{registers} table: .branchtargets $end;", *lines, "$end: ret;", "}", ""])


FIRST_LINE = 6
