"""Run warp-specialized GPU kernels on a CPU and learn whether they are correct.

A kernel's module imports `from wsemu import cuda, ptx`; the kernel is decorated with `@cuda.jit`, and otherwise looks
like Numba-CUDA.

    kernel[grid, block](*arguments)                          emulates the launch with all checks; raises CheckFailed
    report = wsemu.check(kernel, grid, block, arguments)     the same, and returns what was found
    kernel = wsemu.load_ptx("kernels.ptx")["name"]           a kernel from PTX: of CUDA C++, Triton, Numba

The path of a kernel: `frontend` (source to bytecode), `machine` (bytecode to outcome), `launch` (outcome to `Report`),
`report` (Report to text).  Names load at first use, so that `import wsemu` costs nothing.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wsemu import cuda as cuda
    from wsemu import ptx as ptx
    from wsemu import strategies as strategies
    from wsemu.app.launch_file import check_like as check_like
    from wsemu.app.launch_file import save_launch as save_launch
    from wsemu.app.recording import record_launch as record_launch
    from wsemu.campaign.sweep import SweepFailed as SweepFailed
    from wsemu.campaign.sweep import sweep as sweep
    from wsemu.launch.check import check as check
    from wsemu.launch.crosscheck import crosscheck as crosscheck
    from wsemu.launch.ptx.module import load_ptx as load_ptx
    from wsemu.launch.replay.run import replay as replay
    from wsemu.launch.result import CheckFailed as CheckFailed
    from wsemu.launch.result import Report as Report
    from wsemu.launch.sequence import Sequence as Sequence
    from wsemu.launch.tracing import trace as trace
    from wsemu.launch.transfer import TransferCase as TransferCase
    from wsemu.launch.transfer import check_transfer as check_transfer
    from wsemu.model.device_memory import DeviceMemory as DeviceMemory
    from wsemu.model.errors import KernelError as KernelError
    from wsemu.model.errors import UnsupportedError as UnsupportedError
    from wsemu.model.errors import UsageError as UsageError
    from wsemu.model.finding import Finding as Finding
    from wsemu.model.multicast import Multicast as Multicast
    from wsemu.model.tensor_map import TensorMap as TensorMap
    from wsemu.model.texture import Surface as Surface
    from wsemu.model.texture import Texture as Texture
    from wsemu.model.version import __version__ as __version__
    from wsemu.timing.prediction import Prediction as Prediction
    from wsemu.timing.time import time as time

_HOME = {
    "__version__": "wsemu.model.version",
    "CheckFailed": "wsemu.launch.result",
    "DeviceMemory": "wsemu.model.device_memory",
    "Finding": "wsemu.model.finding",
    "KernelError": "wsemu.model.errors",
    "Multicast": "wsemu.model.multicast",
    "Prediction": "wsemu.timing.prediction",
    "Report": "wsemu.launch.result",
    "Sequence": "wsemu.launch.sequence",
    "Surface": "wsemu.model.texture",
    "SweepFailed": "wsemu.campaign.sweep",
    "TensorMap": "wsemu.model.tensor_map",
    "Texture": "wsemu.model.texture",
    "TransferCase": "wsemu.launch.transfer",
    "UnsupportedError": "wsemu.model.errors",
    "UsageError": "wsemu.model.errors",
    "check": "wsemu.launch.check",
    "check_like": "wsemu.app.launch_file",
    "check_transfer": "wsemu.launch.transfer",
    "crosscheck": "wsemu.launch.crosscheck",
    "cuda": "wsemu.cuda",
    "load_ptx": "wsemu.launch.ptx.module",
    "ptx": "wsemu.ptx",
    "record_launch": "wsemu.app.recording",
    "replay": "wsemu.launch.replay.run",
    "save_launch": "wsemu.app.launch_file",
    "strategies": "wsemu.strategies",
    "sweep": "wsemu.campaign.sweep",
    "time": "wsemu.timing.time",
    "trace": "wsemu.launch.tracing",
}
"""public name -> the module that defines it, or that it is"""

__all__ = [  # noqa: RUF022 - in the order of a reader's interest
    "check",
    "check_transfer",
    "crosscheck",
    "sweep",
    "trace",
    "time",
    "replay",
    "load_ptx",
    "check_like",
    "save_launch",
    "record_launch",
    "DeviceMemory",
    "Multicast",
    "TensorMap",
    "Texture",
    "TransferCase",
    "Report",
    "Prediction",
    "Finding",
    "CheckFailed",
    "Sequence",
    "Surface",
    "SweepFailed",
    "UsageError",
    "KernelError",
    "UnsupportedError",
    "cuda",
    "ptx",
    "strategies",
    "__version__",
]


# in a checkout that is not installed, the folder is next to this one
if not os.path.isdir(os.path.join(__path__[0], "checkers")):
    __path__.append(os.path.dirname(__path__[0]))


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module `wsemu` has no attribute `{name}`")
    from wsemu.launch.hypothesis_example import leaving_out_launch

    with leaving_out_launch():
        module = importlib.import_module(home)
    value = module if home == f"wsemu.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Register the cell magic `%%wsemu`, for `%load_ext wsemu`."""
    from wsemu.app.notebook import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Make a notebook use Numba-CUDA again, for `%unload_ext wsemu`."""
    from wsemu.app.notebook import unload_ipython_extension as unload

    unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
