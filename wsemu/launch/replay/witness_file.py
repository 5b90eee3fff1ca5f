"""Witness files: a finding's schedule and the inputs of the launch, as JSON, for `wsemu replay`.

Format: one JSON object, the fields of `Witness`; `format` and `version` come first.  A reader rejects another version,
an unknown field, and numbers out of range.  `wsemu replay` runs the program that a witness names only if its hash is
the one in the witness, and if it is located below the working folder or the witness file's folder.  This requires the
same trust as running the program directly.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wsemu.evidence.fingerprint import Inputs, changes, inputs
from wsemu.model.codes import CODES, NOT_REPLAYED
from wsemu.model.errors import UsageError
from wsemu.model.finding import Extent, Finding, Step
from wsemu.model.own_files import is_below, read_regular
from wsemu.model.own_folder import make_folder
from wsemu.model.version import __version__
from wsemu.model.wrong_value import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound

FORMAT, VERSION = "wsemu-witness", 1
SUFFIX = ".wsemu.json"
_LARGEST = 32 << 20
"""maximum size of a witness, in bytes"""
_LARGEST_PROGRAM = 64 << 20
"""maximum size of its program, in bytes"""
_SUFFIXES = (".py", ".ptx", ".cu")
"""suffixes of programs that a witness may name"""
_MOST_CHANGES = 3
"""maximum number of changes that are named"""
_REMEDY = "`wsemu check --save-witness DIR PROGRAM` writes it anew"
_Count = Annotated[int, Field(ge=0, lt=1 << 40)]


def _check_code(code: str) -> str:
    if code not in CODES:
        raise ValueError("no finding code, `wsemu explain` lists them")
    return code


def has_witness(finding: Finding) -> bool:
    """Return whether a schedule shows a finding, which `wsemu replay` can execute."""
    return bool(finding.steps) and finding.code not in NOT_REPLAYED


class WitnessError(UsageError):
    """A file is not a witness, or not a witness of this launch."""


class Witness(BaseModel):
    """The schedule of one finding, and the launch to which it belongs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["wsemu-witness"] = "wsemu-witness"
    version: Literal[1] = 1
    wsemu: str = __version__
    """version of wsemu that wrote it"""
    program: str = ""
    """path relative to the file's folder, with `/`; empty if no program was run"""
    program_sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    """hash of the program's file; `wsemu replay` runs a program that a witness names only if it has this hash"""
    arguments: list[str] = []
    """command-line arguments of the program"""
    launch: _Count = 0
    """number of the launch in the program, from 1"""
    kernel: str
    grid: Extent
    block: Extent
    dynamic_shared: _Count = 0
    """dynamic shared memory in bytes"""
    arch: str
    inputs: Inputs
    code: Annotated[str, AfterValidator(_check_code)]
    message: str
    """message of the finding that it shows"""
    steps: Annotated[list[Step], Field(min_length=1)]
    schedule: list[str] = []
    """the shown steps as text"""

    @classmethod
    def of(
        cls,
        report: Report,
        finding: Finding,
        program: str = "",
        arguments: Sequence[str] = (),
        launch: int = 0,
        program_sha256: str = "",
    ) -> Self:
        """Return the witness of an error of a report.  Raise UsageError for a finding without a schedule."""
        if not has_witness(finding) or report.inputs is None:
            raise UsageError(f"`{finding.code}` of `{report.kernel}` has no schedule: no witness")
        from wsemu.evidence.readings import format_steps

        return cls(
            program=program, program_sha256=program_sha256, arguments=list(arguments), launch=launch,
            kernel=report.kernel, grid=report.grid, block=report.block, dynamic_shared=report.dynamic_shared,
            arch=report.arch, inputs=report.inputs, code=finding.code, message=finding.message, steps=finding.steps,
            schedule=format_steps(finding.steps),
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, whole or not at all."""
        file = Path(path)
        text = self.model_dump_json(indent=1) + "\n"
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(temporary, file)
        except BaseException:
            os.unlink(temporary)
            raise

    def check(self, bound: Bound) -> None:
        """Raise WitnessError unless the launch is the one of the witness; the message names the difference."""
        found = [*self._differences(bound)]
        if found:
            rest = f"; and {len(found) - _MOST_CHANGES} changes more" if len(found) > _MOST_CHANGES else ""
            raise WitnessError(
                f"not the launch of the witness: {'; '.join(found[:_MOST_CHANGES])}{rest}; check it anew"
            )

    def _differences(self, bound: Bound) -> Iterator[str]:
        configuration = bound.configuration
        shape = {
            "kernel": (self.kernel, bound.program.name),
            "grid": (self.grid, configuration.grid),
            "block": (self.block, configuration.block),
            "dynamic shared memory": (self.dynamic_shared, configuration.dynamic_shared),
        }
        for name, (then, now) in shape.items():
            if then != now:
                yield f"the {name} was {then}, and is {now}"
        yield from changes(self.inputs, inputs(bound))


def load(path: str | os.PathLike[str]) -> Witness:
    """Read a witness file; raise WitnessError with the fault if it is invalid."""
    name = os.fspath(path)
    try:
        data = read_regular(name, _LARGEST)
    except UsageError as error:
        raise WitnessError(f"{error}: no witness file") from None
    version = re.match(rb'\s*\{\s*"format"\s*:\s*"wsemu-witness"\s*,\s*"version"\s*:\s*(\d{1,9})\b', data)
    if version and int(version[1]) != VERSION:
        raise WitnessError(f"`{name}` has version {int(version[1])}, this wsemu reads {VERSION}: make it anew")
    try:
        return Witness.model_validate_json(data)
    except ValidationError as error:
        raise WitnessError(f"`{name}` is no witness file{_first_fault(error)} ({_REMEDY})") from None
    except (ValueError, RecursionError) as error:
        raise WitnessError(f"`{name}` is no witness file: {error} ({_REMEDY})") from None


def _first_fault(error: ValidationError) -> str:
    """Return the first error in a file."""
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")  # a slip of the pen
    text = error_text(first, list(Witness.model_fields))
    who = "a witness" if first["type"] == "extra_forbidden" else "it"
    return text if text.startswith(":") else f": {who}{text}"


class Saver:
    """Saves the witnesses of a program's errors into a folder, one for each source location.

    It counts the launches inside a `with` block.  `error` is the reason why the folder cannot be created or written.
    """

    def __init__(self, folder: str, program: Path, arguments: Sequence[str]) -> None:
        self.folder = Path(folder)
        self.program, self.arguments = program, arguments
        self._sha256 = _sha256(program)
        self.launches = 0
        self.error: OSError | None = None
        self._saved: dict[object, None] = {}

    def __enter__(self) -> Self:
        from wsemu.launch.hooks import starting

        try:
            make_folder(self.folder)
        except OSError as error:
            self.error = error
        starting.append(self._count)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        from wsemu.launch.hooks import starting

        starting.remove(self._count)

    def _count(self, _: Bound) -> None:
        self.launches += 1

    def save(self, report: Report) -> list[Path]:
        """Save files for the errors of the current launch, and return their paths."""
        files: list[Path] = []
        for finding in report.errors:
            key = report.kernel, finding.code, tuple((s.file, s.line, s.column) for s in finding.places)
            if self.error or key in self._saved or not has_witness(finding):
                continue
            self._saved[key] = None
            file = self.folder / f"{self.program.stem}-{len(self._saved)}-{finding.code}{SUFFIX}"
            try:
                Witness.of(report, finding, *self._origin()).save(file)
            except OSError as error:  # no matter of the program, which is running
                self.error = error
            else:
                files.append(file)
        return files

    def _origin(self) -> tuple[str, Sequence[str], int, str]:
        """Return the origin of the current launch: the program, its arguments, the launch's number, the program's
        hash."""
        return self._relative(), self.arguments, self.launches, self._sha256

    def _relative(self) -> str:
        """Return the program's path relative to the folder; its name alone if it has no relative path."""
        try:
            path = os.path.relpath(os.path.realpath(self.program), os.path.realpath(self.folder))
        except ValueError:  # another drive
            path = self.program.name
        return path.replace(os.sep, "/")


def _sha256(program: str | os.PathLike[str]) -> str:
    """Return the hash of a program's file; empty if it cannot be read."""
    try:
        return hashlib.sha256(read_regular(program, _LARGEST_PROGRAM)).hexdigest()
    except UsageError:
        return ""


def program_path(witness: Witness, path: Path) -> Path:
    """Return the program that a witness file names if `wsemu replay` may run it.

    Raise WitnessError unless it is a .py, .ptx or .cu file below the working folder or the witness file's folder, and
    has the hash in the witness.  It must not be below a hidden folder or a folder of installed packages.
    """
    if not witness.program:
        raise WitnessError(f"`{path}` names no program: replay it from Python, `wsemu.replay(path, kernel, arguments)`")
    naming = f"the program of `{path}`, `{witness.program}`,"
    if "\0" in witness.program:
        raise WitnessError(f"{naming} is no name of a file: give `--program FILE`")
    program = Path(os.path.realpath(os.path.join(path.parent, witness.program)))
    roots = [root for root in (path.parent, Path.cwd()) if is_below(program, root)]
    if not roots:
        raise WitnessError(
            f"`{path}` names a program outside of its folder and the working folder, `{witness.program}`: "
            "go there, or give `--program FILE`"
        )
    if not program.is_file():
        raise WitnessError(f"{naming} does not exist: give `--program FILE`")
    if problem := _forbidden(program, roots):
        raise WitnessError(f"{naming} {problem}: give `--program FILE`, if it is what you want to run")
    if not witness.program_sha256:
        raise WitnessError(f"`{path}` carries no hash of its program: give `--program FILE`, if you want to run it")
    if _sha256(program) != witness.program_sha256:
        raise WitnessError(
            f"{naming} has changed since the witness was written: check it anew, or give `--program FILE` to run it "
            "as it is"
        )
    return program


def _forbidden(program: Path, roots: Sequence[Path]) -> str:
    """Return the reason why no witness may start this program, whatever folder it is in; empty if one may."""
    if program.suffix.lower() not in _SUFFIXES:
        return "has not the suffix .py, .ptx or .cu"
    installed = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    if {"site-packages", "dist-packages"} & {*program.parts} or any(is_below(program, place) for place in installed):
        return "belongs to an installed package"
    inside = [part for root in roots for part in program.relative_to(os.path.realpath(root)).parts]
    return "is located in a hidden folder" if any(part.startswith(".") for part in inside) else ""
