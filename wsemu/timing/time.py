"""`wsemu.time`: the predicted time of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.arguments import prepare_arguments
from wsemu.launch.code import Code
from wsemu.launch.running import bind_launch
from wsemu.launch.second_way import open_to
from wsemu.model import settings
from wsemu.model.errors import UnsupportedError, UsageError, check_int
from wsemu.model.launch_shape import configure
from wsemu.timing.constants import device_named
from wsemu.timing.describe import WITHOUT_PTX, describe
from wsemu.timing.predict import predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.launch.kernel import Launchable
    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration, Size
    from wsemu.timing.constants import Device
    from wsemu.timing.describe import Kind
    from wsemu.timing.predict import Predicted
    from wsemu.timing.prediction import Prediction


def time(
    kernel: Launchable | Callable[..., object],
    grid: Size,
    block: Size,
    args: Sequence[Any] = (),
    *,
    device: str = "H200",
    dynamic_shared: int = 0,
    registers: int = 0,
    cta: int | None = None,
    resident: int | None = None,
    memory: DeviceMemory | None = None,
) -> Prediction:
    """Predict how long `kernel[grid, block](*args)` takes on a GPU, what bounds it, and where its warps wait.

    One CTA runs on the emulator, without checks and on copies of the arrays; its instructions are then simulated on a
    model of a multiprocessor.  `device` names the GPU. `registers` is the number of registers per thread that ptxas
    reports (0: unknown).  `cta` is the linear index of the CTA (default: the second one).  `resident` is the number of
    co-resident CTAs of a multiprocessor, if it is less than the maximum.

    If Numba-CUDA is installed, the prediction for a Python kernel uses Numba-CUDA's PTX.
    """
    configuration = configure(grid, block, 0, dynamic_shared, None)
    how: dict[str, Any] = {"device": device, "registers": registers, "cta": cta, "resident": resident}
    return predict_launch(kernel, configuration, args, memory=memory, **how)


def predict_launch(
    kernel: Any,
    configuration: LaunchConfiguration,
    args: Sequence[Any],
    *,
    device: str = "H200",
    registers: int = 0,
    cta: int | None = None,
    resident: int | None = None,
    memory: DeviceMemory | None = None,
) -> Prediction:
    """Predict the time of a launch of this configuration, as `time` does."""
    options: dict[str, Any] = {"registers": registers, "cta": cta, "resident": resident}
    return examine_launch(kernel, configuration, args, device, memory=memory, **options)[0]


def examine_launch(
    kernel: Any,
    configuration: LaunchConfiguration,
    args: Sequence[Any],
    device: str,
    *,
    memory: DeviceMemory | None = None,
    **options: Any,
) -> tuple[Prediction, Predicted]:
    """Return the prediction, and the run of the model; `options` are those of `predict_bound`."""
    chosen = device_named(device)
    bound, kind, notes = bound_for_time(kernel, configuration, args, memory)
    found = predict_bound(bound, chosen, **options)
    return describe(found, chosen, kind, notes), found


def predict_bound(
    bound: Bound,
    device: Device,
    registers: int = 0,
    cta: int | None = None,
    resident: int | None = None,
    spans: int = 0,
) -> Predicted:
    """Run the model for a bound launch; raise UsageError for invalid numbers.  `spans` is the number of listed
    waits."""
    ctas = bound.configuration.ctas
    if cta is not None and not 0 <= check_int(cta, "cta") < ctas:
        raise UsageError(f"no CTA {cta}: the grid has {ctas:,}")
    if not 0 <= check_int(registers, "registers") <= 255:
        raise UsageError(f"registers={registers}: give 0 to 255 of a thread")
    if resident is not None and check_int(resident, "resident") < 1:
        raise UsageError(f"resident={resident}: give 1 or more CTAs of a multiprocessor")
    return predict(bound, device, registers=registers, cta=cta, resident=resident, spans=spans)


def bound_for_time(
    kernel: Any, configuration: LaunchConfiguration, args: Sequence[Any], memory: DeviceMemory | None = None
) -> tuple[Bound, Kind | None, list[str]]:
    """Return the launch to predict, the kind of inaccuracy if it is not from PTX, and notes."""
    kind: Kind | None = None
    notes: list[str] = []
    if not isinstance(kernel, Code):
        why = UnsupportedError("its time is predicted")
        may = memory is None and settings.current().numba_ptx
        way = open_to(kernel, prepare_arguments(kernel, args), why) if may else None
        if way is not None:
            kernel, args = way.kernel, way.arguments
        else:
            kind = WITHOUT_PTX
            missing = why.remedy or "Numba-CUDA is not installed"
            notes.append(f"wsemu's own code of the kernel is used: {missing if may else 'as requested'}")
    args = prepare_arguments(kernel, args)
    if memory is not None and isinstance(kernel, Code):
        args = kernel.with_pointers(args, memory)
    return bind_launch(kernel, configuration, args, settings.current(), memory=memory)[0], kind, notes
