"""What Numba-CUDA says of a kernel compiled for types: `kernel.overloads[types]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.language.promotion import dtype_of, number_type
from wsemu.model import settings
from wsemu.model.launch_shape import configure
from wsemu.model.residency import MULTIPROCESSORS, held

if TYPE_CHECKING:
    from wsemu.language.signatures import Declared
    from wsemu.launch.kernel import Kernel
    from wsemu.model.program import Program


class Overload:
    """A kernel for the types of one of its signatures."""

    def __init__(self, kernel: Kernel, declared: Declared) -> None:
        self._kernel, self._types = kernel, declared.arguments

    @property
    def cooperative(self) -> bool:
        """Whether all CTAs of a launch have to run at once, for it has a barrier of the grid."""
        return self._program().cooperative

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """The CTAs of this shape that the largest GPU of the architecture, or one of `sms` multiprocessors, holds at
        once; `dynsmemsize` is a CTA's dynamic shared memory in bytes."""
        chosen = settings.current()
        shape, program = configure(1, blockdim, 0, dynsmemsize), self._program()
        each, _ = held(chosen.arch, shape.threads, program.shared_bytes + dynsmemsize, program.registers)
        return each * (chosen.sms or MULTIPROCESSORS[chosen.arch].most)

    def _program(self) -> Program:
        from wsemu.launch.compiled import compiled  # on demand: few ask

        return compiled(self._kernel, [_example(type_) for type_ in self._types], True).program


class Overloads(Mapping[Any, Overload]):
    """Types of arguments, as a tuple of Numba's types -> the kernel for them; those of its signatures."""

    def __init__(self, kernel: Kernel) -> None:
        self._found = {one.arguments: Overload(kernel, one) for one in kernel.declared}

    def __getitem__(self, types: Any) -> Overload:
        return self._found[tuple(getattr(types, "args", types))]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _example(type_: Any) -> Any:
    """A value of one of Numba's types, of arrays and numbers."""
    found = number_type(type_.dtype if hasattr(type_, "ndim") else type_)
    dtype = np.dtype(str(type_)) if found is None else dtype_of(found)
    if not hasattr(type_, "ndim"):
        return dtype.type(1)
    return np.zeros((1,) * type_.ndim, dtype, order="F" if type_.layout == "F" else "C")
