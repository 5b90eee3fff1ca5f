import torch
import triton
import triton.language as tl


@triton.jit
def histogram(counts, x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(x + i)
    tl.store(counts + place, tl.load(counts + place) + 1)


x = torch.randint(0, 16, (256,), device="cuda")
counts = torch.zeros(16, dtype=torch.int32, device="cuda")
histogram[(2,)](counts, x, BLOCK=128)
