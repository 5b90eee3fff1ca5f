"""Python startup code for processes of a program under wsemu: `numba.cuda` is `wsemu.cuda` there as well.

Nothing of wsemu is imported before a program imports Numba-CUDA.  A `sitecustomize` that this one hides is also run.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOTS = ("numba.cuda", "numba_cuda", "numba_cuda_mlir")


class _Waiting:
    """Finder in `sys.meta_path` that waits until Numba-CUDA is imported."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(_ROOTS):
            return None
        sys.meta_path.remove(self)
        try:
            from wsemu.host import takeover
        except ImportError:  # a Python installation without wsemu
            return None
        takeover.install()
        return importlib.util.find_spec(name)


def _run_hidden_sitecustomize():
    """Run the `sitecustomize` that Python would have found without this one."""
    places = [place for place in sys.path if os.path.abspath(place) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("WSEMU_NUMBA") == "1":
    sys.meta_path.insert(0, _Waiting())
_run_hidden_sitecustomize()
