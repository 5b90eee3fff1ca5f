"""`[tool.wsemu]` of pyproject.toml: the options of the command line, written once.

    [tool.wsemu]
    arch = "sm_80"
    skip = ["coalescing"]

    [[tool.wsemu.suppress]]
    code = "bank-conflict"
    file = "kernels/transpose.py"
    array = "tile"
    reason = "kept as the slow version that the fast one is measured against"

`Configuration` is the one model: its keys are the options of `wsemu check` without their dashes, and with `wsemu_` in
front (and `_` for `-`) the names in a pytest ini file.  What the command line gives goes before the file.
"""

from __future__ import annotations

import difflib
import functools
import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from wsemu.app.baseline import read_baseline
from wsemu.app.pyproject import FILE, kind
from wsemu.model.arch import DEFAULT, limits
from wsemu.model.codes import checkers_named, finding_codes
from wsemu.model.errors import UsageError
from wsemu.model.settings import MAX_EFFORT, REGEX, Assignment, Engine, Managed, Pageable, Settings, Sums
from wsemu.model.suppression import Suppression
from wsemu.model.wrong_value import expected_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

Format = Literal["text", "short", "json", "github", "gitlab", "junit", "sarif"]


def _hyphenate(name: str) -> str:
    return name.replace("_", "-")


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=_hyphenate,
        validate_by_name=True,
        defer_build=True,  # because most programs have no configuration
    )


class Suppress(_Table):
    """One `[[tool.wsemu.suppress]]`: findings that are known and accepted."""

    code: str
    """a finding code, or a checker for all of its codes"""
    file: str = Field(min_length=1)
    """source file, relative to the folder of the configuration; `*` and `?` match any characters, including `/`"""
    reason: str
    """why the findings are accepted; reports show it next to each finding that is left out"""
    line: int | None = Field(default=None, ge=1)
    function: str | None = Field(default=None, min_length=1)
    """the kernel or the device function"""
    array: str | None = Field(default=None, min_length=1)

    @field_validator("code")
    @classmethod
    def _check_code(cls, code: str) -> str:
        finding_codes([code])
        return code

    @field_validator("reason")
    @classmethod
    def _check_reason(cls, reason: str) -> str:
        if not reason.strip():
            raise ValueError("say why the finding is accepted")
        return reason.strip()


class Configuration(_Table):
    """The options of `wsemu check` and `wsemu run`, with their defaults."""

    arch: str = DEFAULT
    sms: int = Field(default=0, ge=0)
    """multiprocessors of the GPU; 0: those of the largest GPU of the architecture"""
    clc: Assignment = "robin"
    """rule for which clusters take over the work of canceled ones"""
    ranks: int = Field(default=1, ge=1)
    """GPUs among which the CTAs of a launch are divided"""
    heap: int = Field(default=Settings().heap, ge=1)
    """bytes of the heap from which kernels allocate memory"""
    fma: bool = True
    mma: Sums = "hardware"
    budget: int = Field(default=Settings().budget, ge=1)
    engine: Engine = "vm"
    effort: int = Field(default=1, ge=1, le=MAX_EFFORT)
    """multiple of the usual number of interleavings of atomics that are tried"""
    only: list[str] = []
    skip: list[str] = []
    numba_ptx: bool = True
    lockstep: bool = False
    strict: bool = False
    managed: Managed = "concurrent"
    """use of managed memory by host and device: concurrently, or never at the same time (`exclusive`)"""
    pageable: Pageable = "promised"
    """order of asynchronous copies of pageable memory: what CUDA promises, or what drivers do (`usual`)"""
    every: bool = False
    corners: bool = False
    fail_on: list[str] = []
    allow_incomplete: bool = False
    """an `incomplete` launch fails neither a command nor a test"""
    kernel: list[str] = []
    """names of kernels, with `*` and `?`, or `regex:` and an expression; empty: all kernels"""
    launch_skip: int = Field(default=0, ge=0)
    """number of first launches of the checked kernels that run without checks"""
    launch_count: int = Field(default=0, ge=0)
    """number of launches to check after the skipped ones; 0: all"""
    save_launches: str = ""
    """folder in which each checked launch of a CUDA program is saved, with its memory"""
    time_limit: float | None = Field(default=None, gt=0)
    """seconds after which a program is stopped"""
    limit: int | None = Field(default=None, ge=0)
    """maximum number of findings that are shown"""
    format: Format = "text"
    all: bool = False
    """show every finding in full, instead of one for each cause"""
    fix_budget: float = Field(default_factory=lambda: Settings().fix_budget, ge=0, le=3600)
    """seconds in which edits are tried for a launch with findings"""
    save_witness: str = ""
    """folder in which the schedule of each error is saved"""
    certificate: str = ""
    """file into which the traces of verified launches are written; empty: none"""
    baseline: str = ""
    """file of findings that are accepted; empty: none"""
    statistics: bool = False
    """count the findings by code at the end"""
    suppress: list[Suppress] = []

    @field_validator("save_witness", "certificate", "save_launches", "baseline")
    @classmethod
    def _folder(cls, name: str) -> str:
        if "\0" in name:
            raise ValueError("no folder has the character 0 in its name")
        return name

    @field_validator("arch")
    @classmethod
    def _has_limits(cls, arch: str) -> str:
        limits(arch)
        return arch

    @field_validator("only", "skip")
    @classmethod
    def _checkers(cls, names: list[str]) -> list[str]:
        checkers_named(names)
        return names

    @field_validator("kernel")
    @classmethod
    def _patterns(cls, names: list[str]) -> list[str]:
        for name in names:
            if name.startswith(REGEX):
                try:
                    re.compile(name.removeprefix(REGEX))
                except re.error as error:
                    raise ValueError(f"`{name}` cannot be read as a regular expression: {error}") from None
        return names

    @field_validator("fail_on")
    @classmethod
    def _codes(cls, names: list[str]) -> list[str]:
        finding_codes(names)
        return names

    def settings(self, file: Path | None = None, *, baseline: bool = True) -> Settings:
        """Return the settings of each launch; `file` is the source file that suppressions refer to.  The baseline is
        read."""
        looking = checkers_named(self.only) if self.only else Settings().checkers
        looking -= checkers_named(self.skip)
        if not looking:
            raise UsageError("nothing left to look for: `skip` takes away all that `only` names")
        return Settings(
            arch=self.arch,
            arch_chosen="arch" in self.model_fields_set,
            sms=self.sms,
            clc=self.clc,
            ranks=self.ranks,
            heap=self.heap,
            fma=self.fma,
            mma=self.mma,
            budget=self.budget,
            effort=self.effort,
            engine=self.engine,
            numba_ptx=self.numba_ptx,
            lockstep=self.lockstep,
            strict=self.strict,
            managed=self.managed,
            pageable=self.pageable,
            every=self.every,
            corners=self.corners,
            checkers=looking,
            fail_on=finding_codes(self.fail_on),
            allow_incomplete=self.allow_incomplete,
            kernels=tuple(self.kernel),
            fix_budget=float(self.fix_budget),
            suppressions=tuple(_suppressions(self.suppress, file or Path(FILE))),
            baseline=read_baseline(self.baseline) if self.baseline and baseline else None,
        )


def _suppressions(entries: Sequence[Suppress], written: Path) -> Iterator[Suppression]:
    """Yield the suppressions; their file names are relative to the folder of the configuration file."""
    text = written.read_text(encoding="utf-8").split("\n") if entries and written.is_file() else []
    lines = [n for n, line in enumerate(text, 1) if line.replace(" ", "").startswith("[[tool.wsemu.suppress]]")]
    folder = glob.escape(os.path.realpath(written.parent))
    for number, entry in enumerate(entries):
        yield Suppression(
            codes=finding_codes([entry.code]),
            reason=entry.reason,
            written=(str(written), lines[number] if len(lines) == len(entries) else 1),
            kind="configuration",
            file=os.path.normpath(os.path.join(folder, entry.file)),
            line=entry.line,
            function=entry.function,
            array=entry.array,
        )


def parse_table(table: Mapping[str, Any], where: str) -> Configuration:
    """Return the model of a table.  A UsageError starts with `where` and names the first wrong key.  If `where` is
    empty, the key was given as an option, and the message names it in that form."""
    if not table:
        return Configuration.model_construct()
    try:
        return Configuration.model_validate(dict(table), by_alias=True, by_name=False)
    except ValidationError as error:
        wrong = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")  # misspelled keys first
        said = _explanation(wrong[0])
        raise UsageError(f"`--{said[1:]}" if not where else f"{where} {said}") from None


def _explanation(error: ErrorDetails) -> str:
    """Return what is wrong with a key's value, and which values are allowed."""
    path, model = error["loc"], Configuration
    entry = f"`suppress` number {int(path[1]) + 1} " if path[0] == "suppress" and len(path) > 2 else ""
    keys = _names(Suppress if entry else model)
    key = str(path[2] if entry else path[0])
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key.replace("_", "-"), keys, 1, 0.5)
        remedy = f"did you mean `{near[0]}`?" if near else f"the keys are {', '.join(keys)}"
        return f"{entry}has no key {_quote(key)}: {remedy}"
    if error["type"] == "missing":
        return f"{entry}lacks `{key}`: its keys are {', '.join(keys)}"
    if error["type"] == "value_error":
        return f"{entry}`{key}`: {error['ctx']['error']}"
    value = error["input"]
    given = _quote(value) if isinstance(value, (str, int, float)) else kind(value)
    is_table = error["type"] == "model_type"
    item = f" has an item {given}" if len(path) > (3 if entry else 1) else f" is {given}"
    return f"{entry}`{key}`{item}: give {'a table `[[tool.wsemu.suppress]]`' if is_table else expected_text(error)}"


@functools.cache
def _names(model: type[_Table]) -> Sequence[str]:
    return [_hyphenate(name) for name in model.model_fields]


def _quote(value: Any) -> str:
    """Return a value as a short text on one line."""
    text = ascii(value).replace("'", '"') if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


FORMATS: tuple[str, ...] = get_args(Format)
