"""Transfer patterns of CudaDMA: objects whose methods are kernel code.

`CudaDMASequential`    Contiguous bytes.
`CudaDMAStrided`       Elements at fixed distances.
`CudaDMAIndirect`      Elements that indices name: gather, scatter.
`CudaDMAHalo`          The border of a two-dimensional tile.
`CudaDMATile`          A tile of a matrix, by a tensor copy.
`CudaDMACustom`        A transfer of your own.
`Buffers`              One producer loop and one consumer loop for one, two or more buffers.
`Pipeline`             A ring of buffers that mbarriers synchronize.
`block_size`           The threads of a CTA, after a check that its objects fit together.
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
