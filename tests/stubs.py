"""What type checkers and editors know of the names that kernels use, made from the tables of these names.

`wsemu/language/cuda_signatures.pyi` and `ptx_signatures.pyi` are this module's output; `pytest --bless` writes them.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from wsemu import cuda
from wsemu.language import cuda_names, ptx_names
from wsemu.language.markers import KernelFunction, KernelValue, Namespace, ScalarType

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = '"""Names for kernels, for type checkers alone; made by tests/stubs.py."""\n'


PTX_VALUES = {"LOAD_QUALIFIERS": "str", "STORE_QUALIFIERS": "str", "ACCESS_WIDTHS": "int"}
"""tables that patterns read -> type of their keys"""


def stubs() -> dict[str, str]:
    """File below `wsemu/language` -> text."""
    own = {name: getattr(cuda_names, name) for name in cuda_names.VALUES}
    kernels = {**cuda_names.FUNCTIONS, **cuda_names.VECTORS, **cuda_names.TYPES, **own}
    imports = ["from typing import Any, Final", ""]
    imports += ["from wsemu.host import extending as extending", "from wsemu.host import xoroshiro"]
    imports += [f"from wsemu.host.driver import {name} as {name}" for name in sorted(cuda.HOST)]
    imports += ["from wsemu.host.reduction import Reduce as Reduce"]
    imports += ["from wsemu.language.markers import ScalarType", "", "reduce = Reduce", "random = xoroshiro"]
    imports += ["HAS_NUMBA: Final[bool]", "literal_unroll: Final[Any]"]
    imports += [f"{name}: Final[Any]" for name in sorted({*cuda_names.TYPE_NAMES, *cuda.FOREIGN} - {*kernels})]
    values = ["from typing import Any, Final", ""]
    values += [f"{name}: Final[dict[{key}, str]]" for name, key in PTX_VALUES.items()]
    return {
        "cuda_signatures.pyi": "\n".join([HEAD, *imports, "", _definitions(kernels)]),
        "ptx_signatures.pyi": "\n".join([HEAD, *values, "", _definitions(ptx_names.FUNCTIONS)]),
    }


def _definitions(names: dict[str, object]) -> str:
    return "".join(f"{line}\n" for name in names for line in _stub(name, names[name]))


def _stub(name: str, value: object, indent: str = "") -> Iterable[str]:
    if isinstance(value, KernelFunction):
        if indent:
            yield f"{indent}@staticmethod"
        yield f"{indent}def {name}({_parameters(value)}) -> Any:"
        yield from _documented(str(value.__doc__).partition("\n\n")[2] or name, f"{indent}    ")
    elif isinstance(value, KernelValue):
        yield f"{indent}{name}: Final[int]"
        yield from _documented(str(value.__doc__), indent)
    elif isinstance(value, ScalarType):
        yield f"{indent}{name}: Final[ScalarType]"
    elif isinstance(value, Namespace):
        yield f"class {name}:"
        yield from _documented(str(value.__doc__), "    ")
        for member in dir(value):
            yield from _stub(member, getattr(value, member), "    ")


def _parameters(function: KernelFunction) -> str:
    """`barrier: Any, count: Any = None`; what may be left out is `...`, whatever stands for it."""
    given = function.signature.partition("(")[2].rstrip(")")
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", given) if part.strip()]
    return ", ".join(part if part in "*/" else _parameter(part) for part in parts)


def _parameter(part: str) -> str:
    name, default, _ = part.partition("=")
    return f"{name}: Any" + (" = ..." if default else "")


def _documented(text: str, indent: str) -> list[str]:
    return [f'{indent}"""', *textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent), f'{indent}"""']
