"""Numba-CUDA's description of a kernel that is compiled for types: `kernel.overloads[types]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.language.promotion import element_dtype, number_type
from wsemu.model import settings
from wsemu.model.arch import ARCHS, limits
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.launch_shape import configure
from wsemu.model.numba_library import load_numba
from wsemu.model.residency import ctas_per_multiprocessor

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.kernel import Kernel
    from wsemu.model.program import Program


class Overload:
    """A kernel for the types of its arguments, as a tuple of Numba's types."""

    def __init__(self, kernel: Kernel, types: tuple[Any, ...]) -> None:
        self._kernel, self._types = kernel, types

    @property
    def argument_types(self) -> tuple[Any, ...]:
        return self._types

    @property
    def cooperative(self) -> bool:
        """Return whether all CTAs of a launch must be co-resident because it has a grid barrier."""
        return self._program().cooperative

    @property
    def regs_per_thread(self) -> int:
        """Return the number of registers of a thread: from the option `max_registers`, or as the GPU's compiler
        allocates them."""
        return self._kernel.registers or int(self._from_numba("regs_per_thread", lambda made: made.registers()))

    @property
    def const_mem_size(self) -> int:
        """Return the number of bytes of host arrays that are constants of the kernel."""
        return sum(one.array.nbytes for one in self._program().constant_arrays)

    @property
    def shared_mem_per_block(self) -> int:
        """Return the number of bytes of static shared memory of a CTA."""
        return self._program().shared_bytes

    @property
    def local_mem_per_thread(self) -> int:
        """Return the number of bytes of a thread's local arrays."""
        return self._program().local_bytes

    @property
    def max_threads_per_block(self) -> int:
        """Return the maximum number of threads of a CTA, from the architecture or the option `launch_bounds`."""
        given = self._kernel.options.get("launch_bounds")
        bound = given[0] if isinstance(given, tuple) else given
        return min(bound or sys.maxsize, limits(settings.current().arch).threads)

    def inspect_asm(self, cc: Any = None) -> str:
        """Return the PTX from Numba-CUDA, if it is installed with its compiler; otherwise raise UnsupportedError."""
        return str(self._from_numba("inspect_asm", lambda made: made.ptx))

    def inspect_llvm(self) -> str:
        """Return LLVM's code from Numba-CUDA, as `inspect_asm` does."""
        return str(self._from_numba("inspect_llvm", lambda made: made.library.get_llvm_str()))

    def inspect_lto_ptx(self, cc: Any = None) -> str:
        """Return the PTX after link-time optimization from Numba-CUDA, as `inspect_asm` does."""
        return str(self._from_numba("inspect_lto_ptx", lambda made: made.linked_ptx()))

    def inspect_sass(self) -> str:
        """Return machine code from Numba-CUDA, as `inspect_asm` does, and `nvdisasm`."""
        return str(self._from_numba("inspect_sass", lambda made: made.machine_code()))

    def inspect_sass_cfg(self) -> str:
        """Return the control flow graph of the machine code from Numba-CUDA, as `inspect_asm` does, and `nvdisasm`."""
        return str(self._from_numba("inspect_sass_cfg", lambda made: made.machine_code("-cfg")))

    def inspect_types(self, file: Any = None) -> None:
        """Write the types of the arguments and variables."""
        from wsemu.launch.compiled import variables

        lines = [f"{self._kernel.__name__} ({', '.join(map(str, self._types))})", "-" * 80]
        lines += [f"{one.name} :: {one.type}" for one in variables(self._kernel, self._examples())]
        print("\n".join(lines), file=file or sys.stdout)

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Return the number of co-resident CTAs of this shape on the largest GPU of the architecture, or on one with
        `sms` multiprocessors.  `dynsmemsize` is a CTA's dynamic shared memory in bytes."""
        chosen = settings.current()
        shape, program = configure(1, blockdim, 0, dynsmemsize), self._program()
        each, _ = ctas_per_multiprocessor(
            chosen.arch, shape.threads, program.shared_bytes + dynsmemsize, program.registers
        )
        return each * (chosen.sms or ARCHS[chosen.arch].multiprocessor.most)

    def compile(self) -> None:
        """Find out whether the kernel can be compiled for these types."""
        self._program()

    def _examples(self) -> list[Any]:
        return [_example(type_) for type_ in self._types]

    def _program(self) -> Program:
        from wsemu.launch.compiled import compile_for_types  # on demand: few ask

        return compile_for_types(self._kernel, self._examples(), True).program

    def _from_numba(self, name: str, get: Callable[[Any], Any]) -> Any:
        """Return the result of `get` for the code that Numba-CUDA compiles; raise UnsupportedError with `name` if that
        fails."""
        from wsemu.launch.second_way import ask_compiled

        try:
            return ask_compiled(self._kernel, self._types, get)
        except UsageError as refused:
            what = f"`{self._kernel.__name__}.{name}` is not modelled: {refused}"
            raise UnsupportedError(what, remedy=_REMEDY) from None


_REMEDY = "install its compiler with `pip install 'wsemu[gpu]'`, or remove the call"


class Overloads(Mapping[Any, Overload]):
    """The kernels by types of arguments, which are tuples of Numba's types: those of the declared signatures, or else
    those of the launches."""

    def __init__(self, kernel: Kernel) -> None:
        self._found = {types: Overload(kernel, types) for types in kernel.signatures}

    def __getitem__(self, types: Any) -> Overload:
        return self._found[tuple(getattr(types, "args", types))]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def argument_type(value: Any) -> Any:
    """Return Numba's type of an argument."""
    return load_numba("numba").typeof(value if not hasattr(value, "__array_interface__") else np.asarray(value))


def numba_type(argument: Any) -> Any:
    """Return Numba's type for the front end's type of an argument, or that type itself if Numba has none."""
    from wsemu.frontend.python import compile as front
    from wsemu.language.numbers import NumberType

    types, from_dtype = load_numba("numba.core.types"), load_numba("numba.np.numpy_support").from_dtype
    match argument:
        case NumberType():
            return types.boolean if argument.name == "bool" else getattr(types, argument.name, argument)
        case front.MemberType(cls=members):
            return types.IntEnumMember(members, types.int64)
        case front.ArrayType():
            element = numba_type(known) if (known := number_type(argument.dtype)) else from_dtype(argument.dtype)
            return types.Array(element, argument.ndim, argument.layout, readonly=not argument.writable)
        case front.TupleType():
            return types.BaseTuple.from_types(tuple(map(numba_type, argument.items)))
    return argument


def _example(type_: Any) -> Any:
    """Return an example value of one of Numba's types."""
    if hasattr(type_, "types"):
        items = [_example(item) for item in type_.types]
        return type_.instance_class(*items) if hasattr(type_, "instance_class") else tuple(items)
    if hasattr(type_, "count") and hasattr(type_, "dtype"):
        items = [_example(type_.dtype)] * type_.count
        return type_.instance_class(*items) if hasattr(type_, "instance_class") else tuple(items)
    if hasattr(type_, "instance_class"):
        return next(iter(type_.instance_class))
    element = type_.dtype if hasattr(type_, "ndim") else type_
    found = number_type(element)
    dtype = getattr(element, "dtype", None) or np.dtype(str(element)) if found is None else element_dtype(found)
    if not hasattr(type_, "ndim"):
        return dtype.type(1)
    return _array(type_, np.dtype(dtype))


def _array(type_: Any, dtype: np.dtype[Any]) -> Any:
    if type_.layout == "A" and type_.ndim:
        made = np.zeros((2,) * (type_.ndim - 1) + (4,), dtype)[..., ::2]
    else:
        made = np.zeros((1,) * type_.ndim, dtype, order="F" if type_.layout == "F" else "C")
    made.flags.writeable = type_.mutable
    return made
