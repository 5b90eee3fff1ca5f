import torch
from torch.utils.cpp_extension import load

load("reverse_broken", ["reverse.cpp", "reverse_broken.cu"], is_python_module=False)
x = torch.arange(200.0, device="cuda")
assert torch.equal(torch.ops.extension.reverse(x), x.flip(0))
