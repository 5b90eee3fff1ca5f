from pathlib import Path

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def produce(x):
    x[cuda.threadIdx.x] = 3


CONSUME = """
.version 8.0
.target {target}
.address_size 64
.visible .entry consume(.param .u64 x, .param .u64 y) {{
    .reg .b64 %a, %b; .reg .b32 %t; .reg .b64 %o; .reg .f32 %f;
    {wait}
    ld.param.u64 %a, [x];
    ld.param.u64 %b, [y];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    add.u64 %b, %b, %o;
    {load} %f, [%a];
    st.global.f32 [%b], %f;
    ret;
}}
"""

text = CONSUME.format(target="sm_80", wait="", load="ld.global.f32")  # bad
text = CONSUME.format(target="sm_90", wait="griddepcontrol.wait;", load="ld.global.f32")  # fixed
Path("consume.ptx").write_text(text)
consume = wsemu.load_ptx("consume.ptx")["consume"]
x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 1, 64, (x,), stream="s")
sequence.launch(consume, 1, 64, (x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
sequence.synchronize("s")
