"""Hypothesis strategies: valid transfers and launches, and calls that must be rejected.

    from hypothesis import given
    from wsemu import check_transfer
    from wsemu.strategies import strided_transfers

    @given(transfer=strided_transfers())
    def test_any_stride(transfer):
        check_transfer(transfer).assert_clean()

    sequential_transfers  strided_transfers  indirect_transfers  halo_transfers    a `TransferCase` each
    sizes                                                                          an int at which loops and tiles break
    launches                                                                       a `Launch`: `kernel[launch](x)`
    kernels_with                                                                   a `KernelCase`: a kernel and launch
    invalid_...                                                                    an `Invalid`: what must be refused

No drawn example has to be discarded.  Examples shrink toward one DMA warp and one compute warp, one element of four
bytes, no offsets and no gaps.

    `warps`       1 to 16 DMA warps and compute warps, in either order, sometimes with a warp between them, or one role.
    `alignment`   4, 8 or 16 bytes; bytes_per_thread is 1 to 8 times that.
    `elements`    1 to 32 of |N(256, 256)| floats (at most 1,100), with gaps of up to 16 units of the alignment.
    `offsets`     0 to 3 floats from a 16-byte boundary, as far as the alignment allows.
    `halo`        Radius 1 to 8, tiles of 1 to 63 by 1 to 63 elements of 4, 8 or 16 bytes.
    `others`      One phase or two; cache operators or none; options are sometimes constants of the kernel.

So each transfer fits in the shared memory of sm_80 and sm_90 (the largest takes 148,864 bytes).  An example must be
compiled, which takes 15 to 30 ms, if its sizes are constants of the kernel, or if its combination of options is new.

Reference: the tests of the CudaDMA library, which have the same ranges.
"""

from __future__ import annotations

from wsemu.model.errors import UsageError

try:
    import hypothesis as _hypothesis  # noqa: F401
except ImportError as error:
    raise UsageError("`wsemu.strategies` needs Hypothesis, which is not installed: `pip install hypothesis`") from error

from wsemu.campaign.strategies.invalid import Invalid as Invalid
from wsemu.campaign.strategies.invalid import invalid_halo_transfers as invalid_halo_transfers
from wsemu.campaign.strategies.invalid import invalid_indirect_transfers as invalid_indirect_transfers
from wsemu.campaign.strategies.invalid import invalid_launches as invalid_launches
from wsemu.campaign.strategies.invalid import invalid_sequential_transfers as invalid_sequential_transfers
from wsemu.campaign.strategies.invalid import invalid_strided_transfers as invalid_strided_transfers
from wsemu.campaign.strategies.kernels import KernelCase as KernelCase
from wsemu.campaign.strategies.kernels import kernels_with as kernels_with
from wsemu.campaign.strategies.launches import Launch as Launch
from wsemu.campaign.strategies.launches import launches as launches
from wsemu.campaign.strategies.sizes import sizes as sizes
from wsemu.campaign.strategies.transfers import halo_transfers as halo_transfers
from wsemu.campaign.strategies.transfers import indirect_transfers as indirect_transfers
from wsemu.campaign.strategies.transfers import sequential_transfers as sequential_transfers
from wsemu.campaign.strategies.transfers import strided_transfers as strided_transfers
from wsemu.launch.transfer import TransferCase as TransferCase

__all__ = [
    "Invalid",
    "KernelCase",
    "Launch",
    "TransferCase",
    "halo_transfers",
    "indirect_transfers",
    "invalid_halo_transfers",
    "invalid_indirect_transfers",
    "invalid_launches",
    "invalid_sequential_transfers",
    "invalid_strided_transfers",
    "kernels_with",
    "launches",
    "sequential_transfers",
    "sizes",
    "strided_transfers",
]
