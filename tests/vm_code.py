"""Compare the LLVM code of the VM's parts before and after an edit that must not change it.

    python -m tests.vm_code save FOLDER       # before the edit
    python -m tests.vm_code compare FOLDER    # after it: names each part whose code differs

Each part has two files there: its optimized LLVM code, in which local names are numbers, and its object code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from wsemu.machine.lowering import Module, optimized_module
from wsemu.machine.parts import ALL_PARTS, find_source

_LOCAL = re.compile(r'%"?[\w.$-]+"?|^"?[\w.$-]+"?:', re.MULTILINE)


def part_code(name: str) -> tuple[str, bytes]:
    """Return the optimized LLVM code of a part without its local names, and its object code."""
    function, made = find_source(name)

    def define(module: Module) -> None:
        module.define(function, name)

    module, target = optimized_module(define, name, rare=made.rare, loops=made.loops, width=made.width)
    return without_names(str(module)), target.emit_object(module)


def without_names(text: str) -> str:
    """Return LLVM code whose local names are numbers, in the order in which they occur."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match.group().strip('%":')
        end = ":" if match.group().endswith(":") else ""
        return f"%{numbers.setdefault(name, len(numbers))}{end}"

    return _LOCAL.sub(number, text)


def save(folder: Path) -> None:
    """Write the code of each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ALL_PARTS:
        text, code = part_code(name)
        (folder / f"{name}.ll").write_text(text, encoding="utf-8")
        (folder / f"{name}.o").write_bytes(code)


def compare(folder: Path) -> list[str]:
    """Return a line for each part whose code is not what the folder has."""
    found = []
    for name in ALL_PARTS:
        text, code = part_code(name)
        if (folder / f"{name}.ll").read_text(encoding="utf-8") != text:
            found.append(f"{name}: the LLVM code differs")
            (folder / f"{name}.new.ll").write_text(text, encoding="utf-8")
        elif (folder / f"{name}.o").read_bytes() != code:
            found.append(f"{name}: the object code differs")
    return found


if __name__ == "__main__":
    command, place = sys.argv[1:]
    if command == "save":
        save(Path(place))
    else:
        differences = compare(Path(place))
        print("\n".join(differences) or f"the code of all {len(ALL_PARTS)} parts is the same")
        sys.exit(bool(differences))
