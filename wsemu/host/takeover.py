"""Numba-CUDA programs, unmodified: while a program runs, `numba.cuda` is `wsemu.cuda`.

An import hook provides the module under every name that programs use, whether or not numba-cuda and a GPU are present.
`numba` itself is unchanged, with its own types and `njit`.  Without Numba, the hook provides a `numba` with `cuda` and
wsemu's own number types.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from wsemu import cuda
from wsemu.host.numba_warnings import watching
from wsemu.language.markers import Foreign, NotModelled
from wsemu.launch.hooks import aside
from wsemu.model.errors import MissingModule, MissingPackage, UsageError
from wsemu.model.numba_library import load_numba
from wsemu.model.remembered import remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAMES = ("numba.cuda", "numba_cuda.numba.cuda", "numba_cuda_mlir.cuda")
"""names under which programs import Numba-CUDA"""
_MLIR = "numba_cuda_mlir"


def _lazy_host_names(*names: str) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        from wsemu.host import driver as host

        return {name: getattr(host, name) for name in names}

    return make


def _foreign_module(part: str) -> ModuleType:
    """Return a module whose names only Numba-CUDA's own compiler supports."""
    made = ModuleType(f"numba.cuda.{part}")
    made.__getattr__ = lambda name: getattr(Foreign(part), name)  # type: ignore[method-assign]
    return made


def _types() -> Any:
    """Return Numba's types, and those that Numba-CUDA adds; without Numba, wsemu's own."""
    if not _is_numba_installed():
        return cuda.types
    of_numba = load_numba("numba.core.types")
    made = ModuleType("numba.cuda.types", of_numba.__doc__)
    vars(made).update({name: value for name, value in vars(of_numba).items() if not name.startswith("__")})
    vars(made)["bfloat16"] = cuda.bf16.bfloat16
    return made


def _fp8() -> dict[str, Any]:
    from wsemu.language.cuda_names import cuda_fp8

    return {name: getattr(cuda_fp8, name) for name in dir(cuda_fp8)}


_ERRORS = _lazy_host_names("CudaSupportError", "CudaAPIError", "CudaDriverError")


def _errors() -> dict[str, Any]:
    """Return Numba's errors, and those that Numba-CUDA adds to them."""
    of_numba = vars(load_numba("numba.core.errors"))
    found = {name: value for name, value in of_numba.items() if not name.startswith("__")}
    return {**found, **_ERRORS(), **_lazy_host_names("KernelRuntimeError")()}


def _compiler() -> dict[str, Any]:
    """Return Numba-CUDA's own modules if it is installed; otherwise, modules that can be imported and whose functions
    report an error when called."""
    return {
        name: getattr(cuda, name, NotModelled(f"cuda.{name}")) for name in ("compile", "compile_ptx", "compile_all")
    }


_PARTS: dict[str, Callable[[], Any]] = {
    "libdevice": lambda: cuda.libdevice,
    "fp16": lambda: cuda.fp16,
    "cg": lambda: cuda.cg,
    "random": lambda: importlib.import_module("wsemu.host.xoroshiro"),
    "types": _types,
    "args": _lazy_host_names("In", "Out", "InOut", "wrap_arg"),
    "api": lambda: cuda,
    "decorators": lambda: {"jit": cuda.jit, "declare_device": cuda.declare_device},
    "vectorizers": lambda: vars(importlib.import_module("wsemu.host.vectorize")),
    "launchconfig": lambda: importlib.import_module("wsemu.launch.configured"),
    "kernels": dict,
    "kernels.reduction": lambda: {"Reduce": cuda.Reduce},
    "cudadrv": dict,
    "cudadrv.devicearray": lambda: cuda.devicearray,
    "config": lambda: cuda.config,
    "core": dict,
    "core.config": lambda: cuda.config,
    "core.types": lambda: load_numba("numba.core.types"),
    "devicearray": lambda: cuda.devicearray,
    "cudadrv.driver": _ERRORS,
    "cudadrv.error": _ERRORS,
    "errors": _errors,
    "core.errors": lambda: load_numba("numba.core.errors"),
    "cudadrv.devices": lambda: {"gpus": cuda.gpus, "get_context": cuda.current_context},
    "compiler": _compiler,
    "extending": lambda: cuda.extending,
    "bf16": lambda: cuda.bf16,
    "fp8": lambda: _foreign_module("fp8"),
    "_internal": dict,
    "_internal.cuda_fp8": _fp8,
}
"""submodule -> function that returns the object in its place, or the names in it"""


_TESTS: dict[str, Callable[[], Any]] = {"testing": lambda: importlib.import_module("wsemu.host.testing")}
"""modules that test suites import"""


_IMPLIED = {"devices": "cudadrv.devices", "driver": "cudadrv.driver"}
"""modules that are attributes of `numba.cuda` -> their location"""


def part(name: str) -> ModuleType:
    """Return the module that represents a part of Numba-CUDA, with its parts."""
    path = _IMPLIED.get(name, name)
    found = _PARTS[path]()
    if not isinstance(found, dict):
        return cast("ModuleType", found)
    made = ModuleType(f"numba.cuda.{path}")
    inner = (key for key in _PARTS if key.startswith(f"{path}."))
    vars(made).update({**found, **{key.removeprefix(f"{path}."): part(key) for key in inner}})
    return made


class _Hook:
    """A finder and loader of modules, first in `sys.meta_path`."""

    simulator = 0
    """value that reads of Numba's own `config.ENABLE_CUDASIM` return: 0, even if the program sets it"""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module that is taken over; raise ModuleNotFoundError for a missing part of such a
        module."""
        if name in (*NAMES, _MLIR, f"{_MLIR}.types"):
            return importlib.machinery.ModuleSpec(name, self, is_package=name != f"{_MLIR}.types")  # type: ignore[arg-type]
        root, part = _split(name)
        if name == "numba" and not _is_numba_installed():
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        if part is None:
            return None
        if part not in _PARTS and part not in _TESTS:
            if root == cuda.__name__:
                return None
            known = ", ".join(f"`{p}`" for p in _PARTS)
            missing = MissingModule(
                f"wsemu runs this program without Numba-CUDA and has nothing for `{root}.{part}`",
                remedy=f"import names from `{root}` itself (parts that exist: {known})",
            )
            missing.name = name
            raise missing
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Return a new module, which `exec_module` replaces by another one."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == _MLIR:
            return
        if name == "numba":
            module.__getattr__ = _name_of_numba  # type: ignore[method-assign]
        elif name == f"{_MLIR}.types":
            sys.modules[name] = load_numba("numba.core.types")
        elif name in NAMES:
            config: Any = sys.modules.get("numba.core.config")
            if getattr(config, "ENABLE_CUDASIM", 0):
                self.simulator, config.ENABLE_CUDASIM = config.ENABLE_CUDASIM, 0
            cuda.__path__ = []  # makes Python search for submodules
            sys.modules[name] = cuda
        else:
            made = {**_PARTS, **_TESTS}[_split(name)[1] or ""]()
            if isinstance(made, dict):
                vars(module).update(made)
            else:
                sys.modules[name] = made


def _is_numba_installed() -> bool:
    """Return whether a finder other than the hook finds Numba."""
    others = (finder for finder in sys.meta_path if not isinstance(finder, _Hook))
    try:
        return any(finder.find_spec("numba", None, None) for finder in others)
    except ModuleNotFoundError:
        return False


def _name_of_numba(name: str) -> Any:
    """Return the value of a name of `numba` for a program without Numba; raise MissingPackage if only Numba has it."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("cuda", "types"):
        return cuda if name == "cuda" else cuda.types
    try:
        return getattr(cuda.types, name)
    except UsageError as error:
        missing = MissingPackage(f"`numba.{name}` needs Numba, which is not installed: pip install 'wsemu[numba]'")
        missing.name = "numba"
        raise missing from error


def _split(name: str) -> tuple[str, str | None]:
    """Return (root, rest) of a module's name; the rest is None for a module that is not taken over."""
    for root in (*NAMES, _MLIR, cuda.__name__):  # `from numba.cuda import errors` imports a part of the replacement
        if name.startswith(f"{root}."):
            return root, name[len(root) + 1 :]
    return name, None


def is_replaced(name: str) -> bool:
    """Return whether a module of this name belongs to Numba-CUDA."""
    return name in (*NAMES, _MLIR) or _split(name)[1] is not None


def has_module(name: str) -> bool:
    """Return whether the hook has a module of this name."""
    return name in NAMES or _split(name)[1] in _PARTS


@contextlib.contextmanager
def numba_cuda() -> Iterator[None]:
    """Inside the `with` block, imports of Numba-CUDA return `wsemu.cuda`; afterwards everything is restored."""
    from wsemu.host.recorder import recorder

    recorder.reset()
    kept, before = _take_out(), dict(vars(cuda))
    hook = _Hook()
    sys.meta_path.insert(0, hook)
    try:
        with remembering(), watching():
            yield
    finally:
        sys.meta_path.remove(hook)
        if hook.simulator:
            cast("Any", sys.modules["numba.core.config"]).ENABLE_CUDASIM = hook.simulator
        _take_out()
        vars(cuda).clear()  # remove the attributes that imports of parts have added
        vars(cuda).update(before)
        sys.modules.update(kept)
        for name, module in kept.items():
            parent, _, child = name.rpartition(".")
            if parent in sys.modules and not _split(parent)[1] and parent not in NAMES:
                setattr(sys.modules[parent], child, module)


START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start")
"""folder whose `sitecustomize` takes over imports in other processes"""
_held = contextlib.ExitStack()


def install() -> None:
    """Make `numba.cuda` `wsemu.cuda` from now on, as in `numba_cuda()`, until `remove()`."""
    if not is_in_force():
        _held.enter_context(numba_cuda())


def is_in_force() -> bool:
    """Return whether imports of Numba-CUDA return `wsemu.cuda`."""
    return any(isinstance(finder, _Hook) for finder in sys.meta_path)


def remove() -> None:
    """Undo `install()`."""
    _held.close()


@contextlib.contextmanager
def propagating_to_subprocesses() -> Iterator[None]:
    """Inside the `with` block, newly started Python processes also have `wsemu.cuda` as `numba.cuda`."""
    kept = {name: os.environ.get(name) for name in ("WSEMU_NUMBA", "PYTHONPATH")}
    places = [place for place in (kept["PYTHONPATH"] or "").split(os.pathsep) if place and place != START]
    os.environ.update(WSEMU_NUMBA="1", PYTHONPATH=os.pathsep.join([START, *places]))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_own: dict[str, ModuleType] = {}
"""Numba-CUDA's modules that `suspending_takeover` has imported"""


@contextlib.contextmanager
def suspending_takeover() -> Iterator[None]:
    """Inside the `with` block, imports of Numba-CUDA return Numba-CUDA itself."""
    hooks = [finder for finder in sys.meta_path if isinstance(finder, _Hook)]
    if not hooks:
        yield
        return
    ours = _swap(hooks, _own)
    try:
        yield
    finally:
        _own.update(_swap((), ours))
        sys.meta_path[:0] = hooks


def _swap(hooks: Iterable[_Hook], modules: dict[str, ModuleType]) -> dict[str, ModuleType]:
    """Replace modules by others; return the replaced ones."""
    found = _take_out()
    for hook in hooks:
        sys.meta_path.remove(hook)
    sys.modules.update(modules)
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and sys.modules[parent] is not cuda:
            setattr(sys.modules[parent], child, module)
    return found


aside.append(suspending_takeover)


def _take_out() -> dict[str, ModuleType]:
    """Remove the modules that are taken over from `sys.modules`, and from the packages that hold them."""
    found = {name: module for name, module in sys.modules.items() if is_replaced(name)}
    if getattr(sys.modules.get("numba"), "__getattr__", None) is _name_of_numba:
        del sys.modules["numba"]
    for name in found:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if name in NAMES:
            vars(sys.modules.get(parent, ModuleType(parent))).pop(child, None)
    return found
