import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def add(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 256 + thread
    if i <= cute.size(x):
        y[i] = y[i] + x[i]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor):
    add(x, y).launch(grid=[4, 1, 1], block=[256, 1, 1])


x, y = torch.arange(1000.0, device="cuda"), torch.ones(1000, device="cuda")
launch(from_dlpack(x), from_dlpack(y))
