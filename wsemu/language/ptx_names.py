"""Names for PTX instructions that Numba-CUDA lacks; `wsemu.ptx` exports them."""

from __future__ import annotations

from typing import Any, Final

from wsemu.language import async_names, matrix_names, tensor_names
from wsemu.language.markers import functions, unknown

LOAD_QUALIFIERS: Final = {
    "": "", "ca": "cached at all levels", "cg": "cached in L2", "cs": "likely read once", "lu": "last use",
    "cv": "not cached", "nc": "through the read-only cache",
}  # fmt: skip
STORE_QUALIFIERS: Final = {
    "": "", "wb": "written back", "cg": "cached in L2", "cs": "likely accessed once", "wt": "written through",
}  # fmt: skip
VECTOR_LENGTHS: Final = {"": 1, "v2": 2, "v4": 4}
ACCESS_WIDTHS: Final = {4: "b32", 8: "v2.b32", 16: "v4.b32"}
"""bytes of an untyped access -> its PTX suffix"""


def _join(*parts: str) -> str:
    return "_".join(part for part in parts if part)


def _accesses() -> dict[str, str]:
    """Return loads and stores of 1, 2 and 4 elements with every cache operator, except those that can be written as
    `x[i]`."""
    table: dict[str, str] = {}
    for vector, length in VECTOR_LENGTHS.items():
        what = "the element at `index`" if length == 1 else f"{length} elements from `index` on, in one access"
        for qualifier, note in LOAD_QUALIFIERS.items():
            if vector or qualifier:
                name = _join("ld", vector, qualifier)
                table[f"{name}(array, index)"] = f"Load {what}{note and ', ' + note}."
        for qualifier, note in STORE_QUALIFIERS.items():
            if vector or qualifier:
                name = _join("st", vector, qualifier)
                value = "value" if length == 1 else "values"
                table[f"{name}(array, index, {value})"] = f"Store {what}{note and ', ' + note}."
    return table


_BARRIERS = {
    "bar_sync(barrier, count=None)": "Wait on a named barrier for `count` threads; no count means the whole CTA.",
    "bar_arrive(barrier, count)": "Give a named barrier of `count` threads, without waiting.",
    "bar_red_popc(barrier, count, predicate)": "bar_sync; returns how many threads had a true predicate, int32.",
    "bar_red_and(barrier, count, predicate)": "bar_sync; returns whether every predicate was true.",
    "bar_red_or(barrier, count, predicate)": "bar_sync; returns whether any predicate was true.",
}
_BYTES = {
    'ld_bytes(array, offset, width, qualifier="")': "Load `width` bytes (4, 8 or 16, a constant) that begin `offset` "
    "bytes after the first element of `array`, in one access: a tuple of uint32, the lowest address first.  "
    f"`qualifier` is one of {', '.join(repr(name) for name in LOAD_QUALIFIERS)}.",
    'st_bytes(array, offset, words, qualifier="")': "Store 1, 2 or 4 uint32 `words` side by side, `offset` bytes after "
    "the first element of `array`, in one access.  "
    f"`qualifier` is one of {', '.join(repr(name) for name in STORE_QUALIFIERS)}.",
}
_UNALIGNED = {f"barrier{signature[3:]}": f"{doc} Lanes of a warp may diverge." for signature, doc in _BARRIERS.items()}

FUNCTIONS: Final = {
    **functions("ptx", "", {**_BARRIERS, **_UNALIGNED, **_BYTES, **_accesses()}), **async_names.FUNCTIONS,
    **matrix_names.FUNCTIONS, **tensor_names.FUNCTIONS,
}  # fmt: skip
"""name -> kernel function; a count of None means the whole CTA"""


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(unknown("module `wsemu.ptx`", name, FUNCTIONS))


def __dir__() -> list[str]:
    return sorted(FUNCTIONS)
