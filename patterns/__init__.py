"""Transfer patterns of CudaDMA: objects whose methods are kernel code.

CudaDMASequential    bytes side by side
CudaDMAStrided       elements at fixed distances
CudaDMAIndirect      elements that indices name: gather, scatter
CudaDMAHalo          the border of a two-dimensional tile
CudaDMATile          a tile of a matrix, by a tensor copy
CudaDMACustom        a transfer of your own
Buffers              one producer loop and one consumer loop for one, two or more buffers
Pipeline             a ring of buffers in step by mbarriers
block_size           threads of a CTA, once its objects are seen to fit together
"""

if __name__ != "wsemu.patterns":
    raise ImportError("`patterns` is a source folder, not a package: import `wsemu.patterns`")

from wsemu.patterns.base import CudaDMA, block_size
from wsemu.patterns.buffers import Buffers
from wsemu.patterns.custom import CudaDMACustom
from wsemu.patterns.halo import CudaDMAHalo
from wsemu.patterns.indirect import CudaDMAIndirect
from wsemu.patterns.pipeline import Pipeline
from wsemu.patterns.sequential import CudaDMASequential
from wsemu.patterns.strided import CudaDMAStrided
from wsemu.patterns.tile import CudaDMATile

__all__ = [
    "Buffers",
    "CudaDMA",
    "CudaDMACustom",
    "CudaDMAHalo",
    "CudaDMAIndirect",
    "CudaDMASequential",
    "CudaDMAStrided",
    "CudaDMATile",
    "Pipeline",
    "block_size",
]
