"""Targets of fuzzers: a launch file and an argument, as bytes.  If something is wrong, they raise AssertionError, or
the error that occurred.  `benchmarks/hostile_fuzz.py` runs them under atheris, `tests/unit/test_hostile_data.py` on a
few inputs."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.malformed import Input, as_json, mutated
from tests.malformed_launches import ARGUMENTS, FILES, LINKS, SEEDS, changed_argument, launch_tree, lay_out
from wsemu.app import ptx_launch
from wsemu.app.launch_file import LaunchFile, linked_files, ptx_file
from wsemu.launch.ptx.module import load_ptx
from wsemu.model.errors import KernelError, UsageError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

_LARGEST = 1 << 20
"""bytes of an array here"""
_here: list[Path] = []


@contextlib.contextmanager
def at(place: Path) -> Iterator[Path]:
    """Lay out the files that inputs may name below a watched folder; yield the folder of the launches."""
    lay_out(Input(FILES, [], links=LINKS), place)
    folder = place / "launches"
    _watch()
    _here.append(folder)
    try:
        with mock.patch.object(ptx_launch, "LARGEST", _LARGEST):
            yield folder
    finally:
        _here.pop()


_watching: list[bool] = []


def _watch() -> None:
    """Check every file that is opened while a target runs: it must be below the folder, and only read."""
    if not _watching:
        _watching.append(False)
        sys.addaudithook(_look)


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _here or not _watching[0]:
        return
    path, mode, flags = arguments
    if isinstance(path, (str, bytes, os.PathLike)) and not os.fsdecode(path).endswith((".py", ".pyc")):
        real = os.path.realpath(os.fsdecode(path))
        assert real.startswith(os.path.join(os.path.realpath(_here[-1]), "")), f"{path!r} is opened"
        assert not flags & (os.O_WRONLY | os.O_RDWR), f"{path!r} is written ({mode})"


@contextlib.contextmanager
def _confined() -> Iterator[None]:
    """Check that every error is a message, and that nothing outside of the folder is opened."""
    _watching[0] = True
    try:
        yield
    except (UsageError, KernelError):
        pass
    finally:
        _watching[0] = False


def launch(data: bytes) -> None:
    """Read a launch file, the files that it names, and its arguments."""
    file = _here[-1] / "a.json"
    file.write_bytes(data)
    with _confined():
        read = LaunchFile.read(file)
        ptx_launch.Options.read(read.options(file, {}).words())
        module = load_ptx(ptx_file(file, read), *linked_files(file, read))
        for number, (name, text) in enumerate(read.set.items()):
            ptx_launch.setting(f"{name}={text}", number, file.parent)
        ptx_launch.parse_arguments(read.args, file.parent)
        assert isinstance(module.name, str)


def argument(data: bytes) -> None:
    """Read the arguments of a launch, a line each."""
    with _confined():
        ptx_launch.parse_arguments(data.decode("utf-8", "replace").split("\n"), _here[-1])


TARGETS: dict[str, Callable[[bytes], None]] = {"launch": launch, "argument": argument}


def seeds(name: str) -> list[bytes]:
    """Return the initial inputs."""
    return [as_json(seed) for seed in SEEDS] if name == "launch" else [text.encode() for text in ARGUMENTS]


def changed(name: str, chance: random.Random, data: bytes = b"") -> bytes:
    """Return an input made from the seeds, or from given bytes."""
    if data and chance.random() < 0.3:
        return mutated(data, chance)
    if name == "launch":
        return launch_tree(chance, []).files["launches/a.json"]
    return "\n".join(changed_argument(chance) for _ in range(chance.randint(1, 3))).encode()
