"""Textures and surfaces as text, for `--arg` and launch files: `tex(f32[8,8]:x.npy, filter=linear)`, `surf(x.npy)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.errors import UsageError
from wsemu.model.texture import Surface, Texture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Parse = Callable[[str], Any]

EXAMPLES = {
    "tex": "write `tex(f32[64,64]:random, filter=linear, address=wrap, normalized=true)`",
    "surf": "write `surf(f32[64,64]:zeros)`",
}


def _truth(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def _address(value: str) -> str | list[str]:
    return [word.strip() for word in value[1:-1].split(",")] if value[:1] == "[" else value


def _border(value: str) -> list[float]:
    if value[:1] != "[" or value[-1:] != "]":
        raise ValueError("a list of four numbers")
    return [float(number) for number in value[1:-1].split(",")]


_OF_BOTH: dict[str, Parse] = {"channels": int, "layered": _truth}
_OPTIONS: dict[str, dict[str, Parse]] = {
    "surf": _OF_BOTH,
    "tex": {**_OF_BOTH, "filter": str, "address": _address, "normalized": _truth, "read": str, "border": _border},
}


def option_names(kind: str) -> tuple[str, ...]:
    """Return the names of the options of `tex` or `surf`."""
    return tuple(_OPTIONS[kind])


def handle(kind: str, array: npt.NDArray[Any], options: Mapping[str, str], text: str) -> Surface:
    """Return the texture (`tex`) or surface (`surf`) of an array, with the options written in `text`."""
    given = {}
    for name, value in options.items():
        try:
            given[name] = _OPTIONS[kind][name](value)
        except ValueError:
            raise UsageError(f"`--arg {text}`: `{name}={value}` is not understood; {EXAMPLES[kind]}") from None
    return (Texture if kind == "tex" else Surface)(array, **given)


def format_handle(value: Surface, array: str) -> str:
    """Return the text of a texture or surface, with its array written as `array`."""
    options = [f"channels={value.channels}"] * (value.channels > 1) + ["layered=true"] * value.layered
    if not isinstance(value, Texture):
        return f"surf({', '.join([array, *options])})"
    options += [f"filter={value.filter}", f"address=[{','.join(value.modes)}]"]
    options += ["normalized=true"] * value.normalized + [f"read={value.read}"] * (value.read != "element")
    options += [f"border=[{','.join(str(float(x)) for x in value.border)}]"] * any(value.border)
    return f"tex({', '.join([array, *options])})"
