"""Numba-CUDA's queries of a kernel's compiled code.  Sizes and types come from the program that the emulator runs; PTX,
LLVM IR and register counts come from Numba-CUDA's own compiler, if it is installed."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from wsemu.language.markers import NotModelled
from wsemu.launch.overloads import Overload, argument_type
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.kernel import Kernel

_OF_OVERLOADS: dict[str, Callable[[Overload], Any]] = {
    "get_regs_per_thread": lambda one: one.regs_per_thread,
    "get_const_mem_size": lambda one: one.const_mem_size,
    "get_shared_mem_per_block": lambda one: one.shared_mem_per_block,
    "get_local_mem_per_thread": lambda one: one.local_mem_per_thread,
    "get_max_threads_per_block": lambda one: one.max_threads_per_block,
    "inspect_asm": lambda one: one.inspect_asm(),
    "inspect_llvm": lambda one: one.inspect_llvm(),
    "inspect_lto_ptx": lambda one: one.inspect_lto_ptx(),
    "inspect_sass": lambda one: one.inspect_sass(),
    "inspect_sass_cfg": lambda one: one.inspect_sass_cfg(),
}
"""methods that take a signature, or return a dictionary with the result for each signature"""


class Stats(NamedTuple):
    """The statistics of Numba's cache of compiled code, which is not used."""

    cache_path: str | None
    cache_hits: dict[Any, int]
    cache_misses: dict[Any, int]


def _inspect_types(kernel: Kernel, file: Any = None) -> None:
    """Write the types of the variables, for each combination of types of the arguments."""
    for one in kernel.overloads.values():
        one.inspect_types(file or sys.stdout)


def _recompile(kernel: Kernel) -> None:
    """Compile again at the next launch, with the values that global names have at that time."""
    from wsemu.launch import compiled

    compiled.forget(kernel.py_func)


def _compile(kernel: Kernel, sig: Any) -> Overload:
    """Return the kernel for a signature, or for a tuple of types."""
    from wsemu.language import signatures

    (declared,) = signatures.parse(sig, kernel.__name__)
    made = Overload(kernel, declared.arguments)
    made.compile()
    return made


def _dump(kernel: Kernel, tab: str = "") -> None:
    print(f"{tab}DUMP {kernel!r}[{', '.join(map(str, kernel.signatures))}]")


_METHODS: dict[str, Callable[..., Any]] = {
    "inspect_types": _inspect_types,
    "recompile": _recompile,
    "compile": _compile,
    "get_compile_result": _compile,
    "dump": _dump,
    "typeof_pyval": lambda _, value: argument_type(value),
    "call": lambda _, arguments, configured: configured(*arguments),
    "enable_caching": lambda _: None,
    "get_function_type": lambda _: None,
}
_VALUES: dict[str, Callable[[Kernel], Any]] = {
    "stats": lambda _: Stats(None, {}, {}),
    "nopython_signatures": lambda kernel: kernel.signatures,
    "is_compiling": lambda _: False,
    "targetoptions": lambda kernel: {**kernel.options, "device": kernel.device},
}
_OF_THE_COMPILER = frozenset(
    """
    add_overload compile_device disable_compile fold_argument_types get_annotation_info get_call_template get_metadata
    get_overload inspect_cfg inspect_disasm_cfg targetctx targetdescr typingctx
    """.split()
)


def has(name: str) -> bool:
    """Return whether Numba-CUDA's dispatcher has an attribute of this name."""
    return any(name in names for names in (_OF_OVERLOADS, _METHODS, _VALUES, _OF_THE_COMPILER))


def attribute(kernel: Kernel, name: str) -> Any:
    """Return the attribute of a kernel that has this name."""
    if name in _OF_OVERLOADS:
        return functools.partial(_for_each_signature, kernel, _OF_OVERLOADS[name])
    if name in _METHODS:
        return functools.partial(_METHODS[name], kernel)
    if name in _VALUES:
        return _VALUES[name](kernel)
    return NotModelled(f"{kernel.__name__}.{name}")


def _for_each_signature(kernel: Kernel, get: Callable[[Overload], Any], signature: Any = None) -> Any:
    """Return the property of a kernel for one signature, or for each."""
    overloads = kernel.overloads
    if signature is not None:
        return get(overloads[signature])
    if kernel.specialized:
        return get(next(iter(overloads.values())))
    return {types: get(one) for types, one in overloads.items()}
