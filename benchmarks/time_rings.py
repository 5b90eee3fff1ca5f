"""Launches of `time/rings.cu`, for `time.py` and `time_device.py`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "time"
PTX = HERE / "rings.sm_90a.ptx.gz"
TILE = 4096


def ptx() -> str:
    """Return the PTX of the kernels."""
    return gzip.decompress(PTX.read_bytes()).decode()


def predict_row(kernel: Any, row: dict[str, Any]) -> float:
    """Return the predicted microseconds of a launch that was measured."""
    import numpy as np

    from wsemu.launch.running import bind_launch
    from wsemu.model import settings
    from wsemu.model.launch_shape import configure
    from wsemu.timing.constants import H200
    from wsemu.timing.predict import predict

    count = row["tiles"] * row["size"] // 4
    x, y = np.zeros(count, np.float32), np.zeros(count, np.float32)
    arguments = kernel.fit((x, y, np.int32(row["tiles"]), np.int32(row["it"])))
    configuration = configure(row["grid"], row["threads"], dynamic_shared=row["dyn"])
    bound, _ = bind_launch(kernel, configuration, arguments, settings.current())
    return predict(bound, H200, registers=row["regs"], in_place=True).seconds * 1e6


def summarize(name: str, pairs: list[tuple[float, float]]) -> str:
    """Return a line on (measured, predicted) times: median error, 90%, worst, rank correlation."""
    import numpy as np

    measured, predicted = np.array(pairs).T
    error = abs(predicted / measured - 1)
    return (
        f"{name:24} {len(pairs):4}  median {np.median(error):6.1%}  90% {np.quantile(error, 0.9):6.1%}  "
        f"worst {error.max():6.1%}  rank {rank_correlation(measured, predicted):.3f}"
    )


def rank_correlation(one: Any, other: Any) -> float:
    """Return Spearman's rank correlation."""
    import numpy as np

    if len(one) < 3:
        return 1.0
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])
