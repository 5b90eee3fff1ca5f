"""Plan which clusters of a launch start, and which they cancel (`clusterlaunchcontrol`).

A GPU starts the clusters that it has room for.  Each request cancels the launch of one other cluster; which one differs
between runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.columns import resident_at_most
from wsemu.model.arch import ARCHS
from wsemu.model.data import NamedTuple
from wsemu.model.grid import Grouping, place
from wsemu.model.isa import OPCODE, REQUEST_CLUSTER
from wsemu.model.program import RESPONSES

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program
    from wsemu.model.settings import Assignment

CANCELED = 1
"""bit of the third word of a response"""


class Plan(NamedTuple):
    """The clusters that start, and the one that a request cancels after each."""

    starting: int = 0
    """number of clusters that start without a request, from the first one on; 0: all of them"""
    successors: tuple[int, ...] = ()
    """for each cluster, the cluster that takes over next; the number of clusters if there is none"""


ALL_START = Plan()


def requests_clusters(program: Program) -> bool:
    """Return whether a program may cancel the launch of clusters."""
    return OPCODE[REQUEST_CLUSTER] in program.opcodes


def plan_clusters(program: Program, configuration: LaunchConfiguration, assignment: Assignment, sms: int) -> Plan:
    """Return the plan of an assignment.  `robin` gives clusters in turn to those that fit on the GPU at once.  `one`
    gives all of them to the first cluster, in order; `reverse` does so from the last one on."""
    if not requests_clusters(program):
        return ALL_START
    count = configuration.ctas // math.prod(configuration.cluster)
    if assignment == "robin":
        starting = min(_resident_clusters(program, configuration, sms), count)
        return Plan(starting, tuple(min(n + starting, count) for n in range(count)))
    order = [*range(1, count)] if assignment == "one" else [*range(count - 1, 0, -1)]
    successors = dict(zip([0, *order], [*order, count], strict=True))
    return Plan(1, tuple(successors[n] for n in range(count)))


def _resident_clusters(program: Program, configuration: LaunchConfiguration, sms: int) -> int:
    """Return the number of clusters that a GPU has room for."""
    each = max(resident_at_most(program, configuration), 1)
    multiprocessors = sms or ARCHS[configuration.arch].multiprocessor.most
    return max(each * multiprocessors // math.prod(configuration.cluster), 1)


def list_responses(configuration: LaunchConfiguration) -> dict[str, npt.NDArray[np.uint32]]:
    """Return the array of the responses that name each cluster, and of the one that names none.

    `ptxas` decodes x of the first CTA, y | z << 16, and CANCELED.
    """
    groups = Grouping(configuration.grid, configuration.cluster)
    found = np.zeros((groups.number + 1, 4), np.uint32)
    for number in range(groups.number):
        x, y, z = (n * size for n, size in zip(place(number, groups.along), groups.shape, strict=True))
        found[number] = x, y | z << 16, CANCELED, 0
    return {RESPONSES: found.reshape(-1)}
