"""Adapt packages of the program's Python, at their import, to the driver of wsemu.

This file imports nothing of wsemu, which may not be installed in that Python.  It also runs the `sitecustomize` that it
hides.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_CUDA_BUILD = (
    "wsemu: this is torch's CUDA build, whose operators on `cuda` do not run: install the CPU wheel: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu"
)
_BORDER = []
"""converter of tensors for torch's extensions, once torch is imported"""


def _prepare_torch(module):
    if module.version.cuda is None and getattr(module.version, "hip", None) is None:
        import wsemu_torch

        _BORDER.append(wsemu_torch.install(module))
    elif module.version.cuda is not None:
        print(_CUDA_BUILD, file=sys.stderr)


def _share_memory(module):
    """Let torch expect memory of the device from another package."""
    if _BORDER:
        _BORDER[0].first.begin()


def _prepare_builds(module):
    if _BORDER:
        import torch
        import wsemu_extensions

        wsemu_extensions.prepare_builds(torch, _BORDER[0], module)


def _prepare_bindings(module):
    import wsemu_clients

    wsemu_clients.redirect_runtime(module)


def _prepare_autotuner(module):
    import wsemu_clients

    wsemu_clients.tune_with_first_configuration(module)


def _prepare_benchmarks(module):
    import wsemu_clients

    wsemu_clients.run_benchmarks_once(module)


def _prepare_profiler(module):
    import wsemu_clients

    wsemu_clients.profile_nothing(module)


def _prepare_viewer(module):
    import wsemu_clients

    wsemu_clients.show_no_profile(module)


def _prepare_cute(module):
    import wsemu_clients

    wsemu_clients.keep_ptx_of_cute(module)


_PREPARATIONS = {
    "torch": _prepare_torch,
    "torch.utils.cpp_extension": _prepare_builds,
    "cuda.core": _share_memory,
    "cupy": _share_memory,
    "numba.cuda": _share_memory,
    "numba_cuda": _share_memory,
    "numba_cuda_mlir": _share_memory,
    "pycuda": _share_memory,
    "cuda.bindings._internal.runtime": _prepare_bindings,
    "cuda.bindings._internal.runtime_ptds": _prepare_bindings,
    "cutlass.base_dsl.compiler": _prepare_cute,
    "triton.runtime.autotuner": _prepare_autotuner,
    "triton.testing": _prepare_benchmarks,
    "triton.profiler.profile": _prepare_profiler,
    "triton.profiler.viewer": _prepare_viewer,
}


class _Finder:
    """A finder in `sys.meta_path` that prepares modules after they have run."""

    def find_spec(self, name, path=None, target=None):
        prepare = _PREPARATIONS.get(name)
        if prepare is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_prepare(module):
                run(module)
                prepare(module)

            spec.loader.exec_module = run_and_prepare
        return spec


def _run_hidden():
    """Run the `sitecustomize` that Python would have found without this one."""
    places = [place for place in sys.path if os.path.abspath(place) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("WSEMU_SERVER"):
    sys.meta_path.insert(0, _Finder())
_run_hidden()
