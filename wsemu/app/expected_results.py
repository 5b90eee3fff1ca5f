"""Results that a launch file expects: arrays, with the differences that are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.app.small_floats import FORMATS, decode
from wsemu.launch.ptx.launch_form import ExpectForm
from wsemu.model.errors import ResultError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class Expected:
    """The expected contents of one array."""

    def __init__(self, name: str, number: int, form: ExpectForm, array: Array) -> None:
        self.name, self.number, self.form, self.array = name, number, form, array
        """the contents that are expected"""

    def accepts(self, found: Array) -> bool:
        """Return whether an array has the expected contents."""
        try:
            self.check(found)
        except (ResultError, UsageError):
            return False
        return True

    def check(self, found: Array) -> None:
        """Raise ResultError if an array differs."""
        if found.size != self.array.size or found.dtype.itemsize != self.array.dtype.itemsize:
            raise UsageError(
                f"`expect` of `{self.name}` has {_describe(self.array)}, and the argument is {_describe(found)}"
            )
        wanted = self.array.reshape(found.shape)
        if found.dtype != wanted.dtype:
            found = found.view(wanted.dtype)
        type_ = self.form.value.partition("[")[0].strip()
        if type_ in FORMATS:
            found, wanted = decode(type_, found), decode(type_, wanted)
        if found.dtype.kind in "fc":
            same = np.isclose(found, wanted, self.form.rtol, self.form.atol, equal_nan=True)
        else:
            same = np.less_equal(np.abs(found.astype(object) - wanted), self.form.atol).astype(bool)
        if same.all():
            return
        place = tuple(int(n) for n in np.argwhere(~same)[0])
        count, index = int(np.count_nonzero(~same)), ", ".join(map(str, place))
        raise ResultError(
            f"`{self.name}` differs from what is expected in {count:,} of {found.size:,} elements: the first is "
            f"`{self.name}[{index}]`, {found[place]}, expected {wanted[place]}"
        )


def _describe(array: Array) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def find_position(key: str, names: Sequence[str], where: str) -> int:
    """Return the position of a parameter by its name or number; UsageError for another key."""
    if key in names:
        return names.index(key)
    if key.isdecimal() and len(key) < 6 and int(key) < len(names):
        return int(key)
    raise UsageError(f"{where} names the parameter `{key}`: the parameters are {', '.join(names) or 'none'}")


def order_arguments(texts: Mapping[str, str], names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the texts of arguments that are given by name, in the order of the parameters."""
    found = {find_position(key, names, where): text for key, text in texts.items()}
    missing = [name for n, name in enumerate(names) if n not in found]
    if missing:
        raise UsageError(f"{where} lacks `{missing[0]}`: the parameters are {', '.join(names)}")
    return tuple(found[n] for n in range(len(names)))
