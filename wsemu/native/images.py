"""Find the PTX of a program: in text, in fat binaries, or in kept copies for machine code that was compiled from
PTX."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.model.errors import UsageError
from wsemu.native import fat_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEPARATOR = "\n//wsemu:next\n"
"""separator of linked files in kept PTX"""
REMEDY = 'rebuild with NVCC_APPEND_FLAGS="-gencode arch=compute_{0},code=compute_{0} -lineinfo" in the environment'
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_FNV_START, _FNV_FACTOR = 1469598103934665603, 1099511628211


class Images:
    """Finds the PTX of the images that a process loads."""

    def __init__(self, process: int, kept: Path, arch: int) -> None:
        self.process = process
        self.kept = kept
        """folder for the PTX that compilers inside of the process generate"""
        self.arch = arch

    def find_ptx(self, image: bytes) -> list[str]:
        """Return the PTX files of an image, to be linked if there are several; raise UsageError if it has none."""
        if int.from_bytes(image[:4], "little") == fat_binary.MAGIC:
            return self._fat_binary_ptx(image)
        if image[:4] == fat_binary.ELF:
            return self._cubin_ptx(image)
        text = image.rstrip(b"\0").decode(errors="replace")
        if ".version" not in text:
            raise UsageError(f"an image of {len(image):,} bytes is neither PTX, a fat binary nor a cubin")
        return text.split(SEPARATOR)

    def _fat_binary_ptx(self, image: bytes) -> list[str]:
        found = [*fat_binary.entries(image)]
        texts = [one for one in found if one.is_ptx]
        if texts:
            return [self._best(texts).unpack().rstrip(b"\0").decode(errors="replace")]
        problem = None
        for one in reversed(found):
            try:
                return self._cubin_ptx(one.unpack())
            except UsageError as error:
                problem = error
        raise problem or UsageError("a fat binary has neither PTX nor machine code")

    def _best(self, texts: list[fat_binary.Entry]) -> fat_binary.Entry:
        """Return the PTX that a driver would compile for the device: the one for the latest architecture that is not
        later than the device's, or else the oldest one."""
        fitting = [one for one in texts if one.target <= self.arch]
        return max(fitting, key=lambda one: one.target) if fitting else min(texts, key=lambda one: one.target)

    def _cubin_ptx(self, image: bytes) -> list[str]:
        for path in self._candidates(image):
            return path.read_text(encoding="utf-8", errors="replace").split(SEPARATOR)
        kernels = fat_binary.kernels_of_cubin(image)
        for text in self._kept_texts():
            if kernels and _defines(text, kernels):
                return text.split(SEPARATOR)
        linked = self._find_linked_ptx(kernels) if kernels else []
        if linked:
            return linked
        names = ", ".join(f"`{name}`" for name in kernels[:3]) + " ..." * (len(kernels) > 3)
        raise UsageError(
            f"the program loads machine code without PTX ({names or f'{len(image):,} bytes'}), and wsemu runs PTX: "
            + REMEDY.format(f"{self.arch}a" if self.arch >= 90 else self.arch)
        )

    def _candidates(self, image: bytes) -> Iterator[Path]:
        """Yield files with the PTX from which exactly this machine code was compiled."""
        alike = [*self.kept.glob(f"*_{len(image)}.ptx")]
        if alike:
            name = f"{_hash(image):016x}_{len(image)}.ptx"
            yield from (path for path in alike if path.name == name)
        cache = self._environment("TRITON_CACHE_DIR") or str(Path.home() / ".triton" / "cache")
        for path in Path(cache).rglob("*.cubin") if Path(cache).is_dir() else ():
            beside = path.with_suffix(".ptx")
            if path.stat().st_size == len(image) and beside.is_file() and path.read_bytes() == image:
                yield beside

    def _environment(self, name: str) -> str:
        """Return an environment variable with its value at the start of the process."""
        try:
            words = Path(f"/proc/{self.process}/environ").read_bytes().split(b"\0")
        except OSError:
            return os.environ.get(name, "")
        start = name.encode() + b"="
        return next((word[len(start) :].decode() for word in words if word.startswith(start)), "")

    def _kept_texts(self) -> Iterator[str]:
        """Yield kept PTX, the newest first."""
        files = sorted(self.kept.rglob("*.ptx"), key=lambda path: path.stat().st_mtime, reverse=True)
        return (path.read_text(encoding="utf-8", errors="replace") for path in files)

    def _find_linked_ptx(self, kernels: list[str]) -> list[str]:
        """Return the PTX of the files that were linked to machine code (`-rdc`), from the program or library that
        contains them."""
        for path in self._code_files():
            try:
                data = fat_binary.fat_binaries(path.read_bytes())
            except OSError:
                continue
            texts = [one for one in fat_binary.entries(data) if one.is_ptx]
            found = [one.unpack().rstrip(b"\0").decode(errors="replace") for one in texts]
            if found and _defines(SEPARATOR.join(found), kernels):
                return found
        return []

    def _code_files(self) -> Iterable[Path]:
        """Return the files whose code the process has mapped."""
        try:
            lines = Path(f"/proc/{self.process}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        found = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if " r-xp " in line)
        return [Path(path) for path in found if path[:1] == "/"]


def find_target(texts: Iterable[str]) -> int:
    """Return the number of the target that PTX was compiled for."""
    found = [int(match[1]) for text in texts if (match := _TARGET.search(text))]
    return max(found, default=90)


def _defines(text: str, kernels: Iterable[str]) -> bool:
    return all(re.search(rf"\.entry\s+{re.escape(name)}\b", text) for name in kernels)


def _hash(data: bytes) -> int:
    value = _FNV_START
    for byte in data:
        value = (value ^ byte) * _FNV_FACTOR & (1 << 64) - 1
    return value
