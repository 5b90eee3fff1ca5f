"""Names of a PTX kernel's parameters, for findings: PTX has only their numbers, the CUDA source has their names."""

from __future__ import annotations

import functools
import linecache
import re
from collections import Counter
from typing import TYPE_CHECKING

from wsemu.launch.ptx.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.ptx import Entry, Module
    from wsemu.model.program import Program

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PART = re.compile(r"_\$_\d+$")
"""the suffix that a compiler adds to the name of a variable whose elements it separates"""
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.S)
"""name of a parameter, before extents and a default"""


def parameter_names(module: Module, entry: Entry) -> tuple[str, ...]:
    """Return a name for each parameter: from the declaration in the source if there is one with the same number of
    parameters; otherwise the PTX name without the kernel's name in front, such as `param_0`."""
    plain = tuple(p.name.removeprefix(entry.name).lstrip("_") or p.name for p in entry.parameters)
    base = re.split(r"[<(]", demangle(entry.name).name)[0].rpartition("::")[2]
    found = {
        tuple(name or number for name, number in zip(names, plain, strict=True))
        for path in module.paths.values()
        if path is not None
        for names in _declared_parameters(_kernels(path), base)
        if len(names) == len(plain)
    }
    return found.pop() if len(found) == 1 else plain


def rename_arrays(program: Program, names: dict[str, str]) -> None:
    """Give the arrays of a program readable names.  `names` has those of the parameters.  Variables get the last part
    of their C++ name, such as `tile`; two variables with the same last part also get their function, as in
    `load<float>::tile`."""
    variables = [*program.shared, *program.locals]
    own = dict.fromkeys([*(array.name for array in variables), *(array.name for array in program.constant_arrays)])
    short = {name: _demangle_variable(name).rpartition("::")[2] for name in own}
    count = Counter([*short.values(), *names.values()])
    whole = {name: _qualify(name) for name in own}
    known = {name: text if count[text] == 1 else whole[name] for name, text in short.items()}
    counts = Counter(known.values())
    known = {**{name: text if counts[text] == 1 else name for name, text in known.items()}, **names}
    program.array_of = [name if name is None else known.get(name, name) for name in program.array_of]
    program.shared = [array._replace(name=known[array.name]) for array in program.shared]
    program.locals = [array._replace(name=known[array.name]) for array in program.locals]
    program.constant_arrays = [array._replace(name=known[array.name]) for array in program.constant_arrays]


def _qualify(name: str) -> str:
    """Return the C++ name of a variable with its function and namespaces, without parameters."""
    return re.sub(r"\([^()]*\)", "", _demangle_variable(name))


def _demangle_variable(name: str) -> str:
    """Return the C++ name of a variable, without a compiler's suffix."""
    return demangle(_PART.sub("", name)).name


@functools.lru_cache(maxsize=32)
def _kernels(path: str) -> str:
    """Return the text of a source without its comments, or an empty text for a file without kernels, like most
    headers."""
    text = "".join(linecache.getlines(path))
    return _COMMENT.sub(" ", text) if "__global__" in text else ""


def _declared_parameters(text: str, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the parameters of each kernel of this name in a C++ source."""
    if not name.isidentifier():
        return
    for match in re.finditer(rf"\b{name}\s*\(", text):
        before = text[: match.start()]
        begin = max(before.rfind(mark) for mark in ";{}")
        if "__global__" in before[begin + 1 :]:
            yield tuple(_parameters(text, match.end()))


def _parameters(text: str, at: int) -> Iterator[str]:
    """Yield the names of the parameters of a list that begins here, after its parenthesis."""
    depth, start = 0, at
    for place in range(at, len(text)):
        character = text[place]
        if character in ",)" and depth == 0:
            declared = text[start:place].strip()
            found = _NAME.search(declared)
            if declared:  # a type alone has no name
                yield found[1] if found and found.start() else ""
            start = place + 1
            if character == ")":
                return
        depth += (character in "([{<") - (character in ")]}>")
