"""Predicted times of the transfers of patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.running import bind_launch
from wsemu.launch.transfer import TransferCase, fill, job
from wsemu.machine.multiprocessor.layout import TICK
from wsemu.model import settings
from wsemu.model.data import replace
from wsemu.model.launch_shape import configure
from wsemu.timing.constants import device_named
from wsemu.timing.predict import predict

if TYPE_CHECKING:
    from wsemu.launch.transfer import Plan

SPANS = 1 << 17
"""maximum number of listed waits of a transfer"""


def add_time(plan: Plan, device: str = "H200") -> Plan:
    """Return a plan with the predicted cycles of one transfer."""
    return replace(plan, cycles=predict_transfer(plan.pattern, device))


def predict_transfer(pattern: Any, device: str = "H200") -> float:
    """Return the predicted cycles of one transfer of a pattern, by one CTA and from L2: from its first instruction to
    its last."""
    index = np.arange(pattern.elements) if hasattr(pattern, "dense_bytes") else None
    run = fill(job(TransferCase(pattern, index)))
    configuration = configure(1, run.job.threads(), 0, run.job.shared_bytes)
    bound, _ = bind_launch(run.job.kernel, configuration, run.arguments(), settings.current())
    spans = predict(bound, device_named(device), spans=SPANS).run.spans
    assert spans is not None
    own = np.array([run.job.from_pattern(bound.program, pc) for pc in range(len(bound.program.code))])
    chosen = spans[own[spans["pc"]]]
    return float(chosen["end"].max() - chosen["begin"].min()) / TICK if len(chosen) else 0.0
