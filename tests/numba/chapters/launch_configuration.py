"""What a launch is configured with: callbacks before it, the launch that is under way, captured ones."""

from numba import cuda
from numba.cuda import launchconfig


@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1


x = cuda.device_array(64, dtype="i4")
with launchconfig.capture_compile_config(fill) as captured:
    fill[2, 32](x)
shape = captured["config"]
assert (shape.griddim, shape.blockdim, shape.sharedmem) == ((2, 1, 1), (32, 1, 1), 0)

seen = []
configured = fill[2, 32]
configured.pre_launch_callbacks.append(lambda kernel, launch: seen.append((launch.griddim, len(launch.args))))
configured(x)
configured(x)
assert seen == [((2, 1, 1), 1)] * 2
assert launchconfig.current_launch_config() is None
try:
    launchconfig.ensure_current_launch_config()
except RuntimeError:
    seen.append("none")
assert seen[-1] == "none"
# expect: 1 kernel, 3 launches: 3 verified
