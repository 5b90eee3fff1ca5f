"""Count the instructions of PTX modules, and list those that are not modeled: `python benchmarks/census.py FILE ...`

A FILE is PTX, or a program that contains PTX.  For each one, print the number of its kernels, of their instructions, of
their `tcgen05` and `clusterlaunchcontrol` instructions, and each instruction that is not modeled, without the `trap`
of a kernel.  Nothing is launched.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from wsemu.frontend.ptx import compile_entry
from wsemu.frontend.ptx.module import Kind, parse
from wsemu.model.program import GIVES_UP
from wsemu.native import fat_binary

_STATEMENT = re.compile(r"^\s*(?:@!?\S+\s+)?([a-z][\w.:]*)\s[^;]*;", re.MULTILINE)
_REFUSED = re.compile(r"(.*) is not modelled")


def read_ptx(file: Path) -> str:
    """Return the PTX of a file."""
    data = file.read_bytes()
    if not data.startswith(fat_binary.ELF):
        return data.decode()
    magic = fat_binary.MAGIC.to_bytes(4, "little")
    starts = [found.start() for found in re.finditer(re.escape(magic), data)]
    texts = [
        entry.unpack().rstrip(b"\0").decode()
        for start in starts
        for entry in fat_binary.entries(data[start:])
        if entry.is_ptx
    ]
    return max(texts, key=len)


def refused_instructions(text: str) -> tuple[int, Counter[str]]:
    """Return the number of kernels of a module, and the instructions in them that are not modeled."""
    kernels, refused = 0, Counter[str]()
    module = parse(text, "module.ptx")
    for entry in module.entries.values():
        kinds: list[Kind] = ["address" if p.type == "u64" else "value" for p in entry.parameters]
        program = compile_entry(module, entry, kinds)
        kernels += 1
        texts = [text for text in (*program.traps, *program.unmodelled) if GIVES_UP not in text]
        refused += Counter(found[1] for trap in texts if (found := _REFUSED.match(trap)))
    return kernels, refused


def main(files: list[str]) -> None:
    for file in map(Path, files):
        text = read_ptx(file)
        found = Counter(match[1].split(".")[0] for match in _STATEMENT.finditer(text))
        kernels, refused = refused_instructions(text)
        new = found["tcgen05"], found["clusterlaunchcontrol"]
        what = ", ".join(f"{name} ({count})" for name, count in refused.items()) or "all modeled"
        print(f"| {file.stem} | {kernels} | {found.total():,} | {new[0]:,} | {new[1]:,} | {what} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
