"""Headers of the CUDA toolkit: code inlined from them is shown at the call."""

from __future__ import annotations

import re

_HEADER = re.compile(
    r"/targets/[\w-]+/include/|/nvvm/|/nvidia/(cu\d+|cuda_\w+|nvvm)/|^/(usr/local|opt)/cuda[^/]*/|/cuda-\d+(\.\d+)*/"
    r"|/include/(cccl/)?(cuda/(std/|__|\w+$)|cub/|thrust/|nv/|crt/|cooperative_groups)"
    r"|/include/(cuda_\w+|sm_\d+_\w+|device_\w+|math_functions|mma|texture_\w+|surface_\w+|vector_\w+)\.(h|hpp)$"
)


def is_toolkit_header(path: str) -> bool:
    """Return whether a path names a header of the CUDA toolkit or its libraries, wherever these are installed."""
    return _HEADER.search(path.replace("\\", "/")) is not None
