"""Save and restore the device memory of a launch in files next to its launch file, for `wsemu run --save-launches`.

Each allocation has a file with its bytes, and a mask of the initialized bytes if some are not.  File names depend on
the contents, so that launches share files.  Pointers stay valid, because each allocation is restored at its address.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.app.array_file import read_array
from wsemu.launch.ptx.launch_form import LaunchForm
from wsemu.model.device_memory import DeviceMemory
from wsemu.model.errors import UsageError
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.isa import OFFSET_MASK, SEGMENT_SHIFT
from wsemu.model.own_files import find_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wsemu.launch.ptx.launch_form import MemoryForm
    from wsemu.launch.ptx.module import PtxKernel, PtxModule
    from wsemu.model.device_memory import Allocation
    from wsemu.model.launch_shape import LaunchConfiguration

LARGEST = INPUT_LIMITS["arg-bytes"].most
"""maximum bytes of all allocations of a launch file"""


def restore(path: Path, launch: LaunchForm, module: PtxModule) -> DeviceMemory | None:
    """Return the memory of a launch file, including the variables of its PTX; None if the file has none."""
    if not launch.memory:
        return None
    total = sum(one.bytes for one in launch.memory)
    if total > LARGEST:
        raise UsageError(f"the `memory` of `{path}` has {total:,} bytes: at most {LARGEST:,}")
    memory = DeviceMemory()
    for window, found in _group_windows(launch.memory).items():
        _place(memory, window << SEGMENT_SHIFT, found)
    unplaced = [name for name, address in launch.variables.items() if memory.find(address) is None]
    if unplaced:
        raise UsageError(f"`{path}`: the variable `{unplaced[0]}` is outside of `memory`: give it an allocation there")
    module.place_variables(memory, launch.variables)
    for one in launch.memory:
        _fill(memory, one, path)
    return memory


def _group_windows(found: Sequence[MemoryForm]) -> Mapping[int, list[MemoryForm]]:
    windows: dict[int, list[MemoryForm]] = defaultdict(list)
    for one in found:
        windows[one.address >> SEGMENT_SHIFT].append(one)
    return windows


def _place(memory: DeviceMemory, start: int, found: Sequence[MemoryForm]) -> None:
    """Place the allocations of one window, a range of 2**40 addresses: a single allocation at the start of the window,
    or several in one shared buffer."""
    if len(found) == 1 and found[0].address == start:
        memory.place(start, np.zeros(found[0].bytes, np.uint8), found[0].name, written=False)
        return
    end = max((one.address & OFFSET_MASK) + one.bytes for one in found)
    if end > LARGEST:
        raise UsageError(
            f"an allocation of `memory` ends {end:,} bytes after the start of its window of 2**40 addresses: "
            f"at most {LARGEST:,} are supported"
        )
    memory.add_arena(start, np.zeros(end, np.uint8))
    for one in found:
        memory.place(one.address, one.bytes, one.name, written=False)


def _fill(memory: DeviceMemory, one: MemoryForm, path: Path) -> None:
    """Give an allocation its bytes."""
    if not one.data:
        return
    memory.view(one.address)[:] = _bytes(path, one.data, one.bytes)
    marks = _bytes(path, one.written, one.bytes) if one.written else np.ones(one.bytes, np.uint8)
    edges = np.flatnonzero(np.diff(marks.astype(bool), prepend=False, append=False))
    for start, end in edges.reshape(-1, 2).tolist():
        memory.mark_written(one.address + start, end - start)


def _bytes(path: Path, name: str, size: int) -> Any:
    array = read_array(find_below(path.parent, name, f"`memory` of `{path}`"), size).reshape(-1).view(np.uint8)
    if array.size != size:
        raise UsageError(f"`{name}`, of `memory` of `{path}`, has {array.size:,} bytes, and the allocation {size:,}")
    return array


class LaunchSaver:
    """Writes launches into a folder."""

    def __init__(self, folder: Path) -> None:
        """Prepare a folder; raise UsageError if it cannot be created or already has launch files."""
        self._folder = folder
        self._number = 0
        self._known: dict[bytes, str] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_used = any(folder.glob("*.json"))
        except OSError as error:
            raise UsageError(f"launches cannot be saved in `{folder}`: {error.strerror}") from None
        if is_used:
            raise UsageError(f"`{folder}` has launch files already: give a new folder to `--save-launches`")

    def save(
        self,
        kernel: PtxKernel,
        configuration: LaunchConfiguration,
        parameters: Sequence[bytes],
        memory: DeviceMemory,
        texts: Sequence[str],
        variables: Mapping[str, int],
    ) -> Path:
        """Write a launch that is about to run, and return its file."""
        self._number += 1
        name = re.sub(r"\W+", "_", kernel.__name__)[:60]
        path = self._folder / f"{self._number:05}-{name}.json"
        files = [self._keep(text.encode(), ".ptx") for text in texts]
        launch = {
            "ptx": files[0], "link": files[1:], "entry": kernel.entry.name, "grid": [*configuration.grid],
            "block": [*configuration.block], "dynamic_shared": configuration.dynamic_shared,
            "cluster": [*configuration.cluster] if configuration.cluster != (1, 1, 1) else [],
            "args": [f"bytes:{data.hex()}" for data in parameters],
            "memory": [self._describe(one) for one in memory], "variables": dict(variables),
        }  # fmt: skip
        kept = {key: value for key, value in launch.items() if value not in ([], {}, 0) or key == "grid"}
        LaunchForm.model_validate(kept)
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return path

    def _describe(self, one: Allocation) -> dict[str, Any]:
        found: dict[str, Any] = {"address": one.address, "bytes": one.bytes}
        if one.name != f"{one.address:#x}":
            found["name"] = one.name
        if one.unwritten < one.bytes or not one.bytes:
            found["data"] = self._keep(one.data, ".npy")
            if one.written is not None:
                found["written"] = self._keep(one.written, ".npy")
        return found

    def _keep(self, data: Any, suffix: str) -> str:
        """Return the name of the file with these bytes; write it if it is new."""
        digest = hashlib.blake2b(data, digest_size=16).digest()
        if digest not in self._known:
            name = self._known[digest] = digest.hex() + suffix
            if suffix == ".npy":
                np.save(self._folder / name, np.asarray(data), allow_pickle=False)
            else:
                (self._folder / name).write_bytes(data)
        return self._known[digest]
