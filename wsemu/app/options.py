"""The options that several commands have."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """The form that findings are written in."""

    text = "text"
    short = "short"
    json = "json"
    github = "github"
    gitlab = "gitlab"
    junit = "junit"
    sarif = "sarif"


class DataFormat(StrEnum):
    """The form of a command's result: text, or data."""

    text = "text"
    json = "json"


class Progress(StrEnum):
    """The formats in which a campaign reports its progress."""

    bar = "bar"
    json = "json"
    none = "none"


class ManagedUse(StrEnum):
    """Ways in which host and device use managed memory."""

    concurrent = "concurrent"
    exclusive = "exclusive"


class PageableOrder(StrEnum):
    """Rules for the order of asynchronous copies of pageable memory."""

    promised = "promised"
    usual = "usual"


class Assignment(StrEnum):
    robin = "robin"
    one = "one"
    reverse = "reverse"


class Sums(StrEnum):
    """The rounding of sums in matrix instructions."""

    hardware = "hardware"
    exact = "exact"


class Engine(StrEnum):
    """The interpreters that can run a launch."""

    vm = "vm"
    reference = "reference"


class Tier(StrEnum):
    """The conditions under which programs get compiled regions, as `machine.tier.hot` defines them."""

    auto = "auto"
    off = "off"
    always = "always"
    restless = "restless"


def codes(incomplete: str) -> list[tuple[str, str]]:
    """Return the finding codes that begin with `incomplete`, and their meanings, for completion in a shell."""
    from wsemu.model.codes import CODES

    return [(code, meaning) for code, (_, meaning, *_) in CODES.items() if code.startswith(incomplete)]


def _set_tier(tier: Tier | None) -> None:
    """Set the tier of the machine in this process and in processes that it starts."""
    if tier is not None:
        os.environ["WSEMU_TIER"] = tier.value


def _set_source_roots(folders: list[str] | None) -> None:
    """Set the source folders of the front end in this process and in processes that it starts."""
    for folder in folders or ():
        if not os.path.isdir(folder):
            raise typer.BadParameter(f"{folder} is not a folder: give one that holds the sources of kernels")
    if folders:
        os.environ["WSEMU_SOURCE_ROOTS"] = os.pathsep.join(os.path.abspath(folder) for folder in folders)


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A program that launches kernels, or kernels: CUDA C++ (.cu) or PTX.", show_default=False
    ),
]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="ARGS", help="Arguments of the program.", show_default=False)
]
Arch = Annotated[str | None, typer.Option(help="Architecture whose limits apply.  [default: sm_90]")]
Fma = Annotated[
    bool | None,
    typer.Option(
        "--fma/--no-fma", help="Contract a * b + c into one rounding, as the GPU's compiler does (the default)."
    ),
]
MmaOption = Annotated[
    Sums | None,
    typer.Option("--mma", help="Rounding of matrix instructions; `exact` rounds each sum once.  [default: hardware]"),
]
Budget = Annotated[int | None, typer.Option(min=1, help="Warp instructions after which a launch ends as incomplete.")]
TierOption = Annotated[
    Tier | None,
    typer.Option(
        "--tier",
        metavar="auto|off|always",
        callback=_set_tier,
        expose_value=False,
        help="Compile the hot regions of long programs, of no program, or of every one; `restless` is for tests."
        "  [default: auto]",
    ),
]
EngineOption = Annotated[
    Engine | None, typer.Option(help="Engine that executes the launch; `reference` is slow and simple.  [default: vm]")
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECKER", help="Run only this checker (repeatable); a finding code selects its checker."),
]
Skip = Annotated[
    list[str] | None, typer.Option(metavar="CHECKER", help="Do not run this checker (repeatable).", show_default=False)
]
Effort = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Try N times as many interleavings of atomics, and follow undefined values N times as far.",
        show_default="1",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="GPUs of one host among which the CTAs of each launch are divided; `.gpu` scope is limited to one GPU.",
        show_default="1",
    ),
]
Sms = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Multiprocessors of the GPU, which determine how many CTAs are co-resident.",
        show_default="those of the largest GPU of `--arch`",
    ),
]
ClcOption = Annotated[
    Assignment | None,
    typer.Option(
        "--clc",
        help="Which running clusters take the work of canceled ones (`clusterlaunchcontrol`): all in turn; only the "
        "first; or only the first, beginning with the last canceled cluster.  [default: robin]",
    ),
]
Heap = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="BYTES",
        help="Memory that kernels may allocate (cudaLimitMallocHeapSize).",
        show_default="8 MiB",
    ),
]
Lockstep = Annotated[
    bool | None,
    typer.Option("--lockstep/--no-lockstep", help="Execute the lanes of a warp in lockstep, as before sm_70."),
]
NumbaPtx = Annotated[
    bool | None,
    typer.Option(
        "--numba-ptx/--no-numba-ptx",
        help="Run kernels that wsemu cannot compile itself as PTX of Numba-CUDA, if it is installed (the default).",
    ),
]
Strict = Annotated[
    bool | None,
    typer.Option(
        "--strict/--no-strict",
        help="Fail on warnings that the verdict names, and note correct code that looks like a mistake.",
    ),
]
ManagedOption = Annotated[
    ManagedUse | None,
    typer.Option(
        "--managed",
        help="Use of managed memory by host and device: concurrent, or never at the same time.  [default: concurrent]",
    ),
]
PageableOption = Annotated[
    PageableOrder | None,
    typer.Option(
        "--pageable",
        help="Order of asynchronous copies of pageable memory: what CUDA promises, or what drivers do."
        "  [default: promised]",
    ),
]
Every = Annotated[
    bool | None,
    typer.Option(
        "--every/--no-every", help="Report for which other array contents and trip counts a verdict also holds."
    ),
]
Corners = Annotated[
    bool | None,
    typer.Option(
        "--corners/--no-corners",
        help="Run representative CTAs of a grid of symmetric CTAs; the proof covers the others.",
    ),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Count this warning as an error (repeatable).", autocompletion=codes),
]
AllowIncomplete = Annotated[
    bool | None,
    typer.Option(
        "--allow-incomplete/--no-allow-incomplete",
        help="An `incomplete` launch does not fail the command: the exit code is 0 instead of 3.",
    ),
]
KernelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="Check only launches of this kernel (repeatable); * and ? match, and `regex:EXPR` searches.",
    ),
]
LaunchSkip = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Run the first N launches of the checked kernels without checks."),
]
LaunchCount = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Check N launches, and run the rest without checks; 0: check all."),
]
SaveLaunches = Annotated[
    str | None,
    typer.Option(
        "--save-launches",
        metavar="DIR",
        help="CUDA programs: save each checked launch and its memory in DIR, for `wsemu check`.",
    ),
]
Limit = Annotated[int | None, typer.Option(min=0, help="Show at most this many findings; the verdict counts all.")]
All = Annotated[
    bool | None, typer.Option("--all/--causes", help="Show every finding in full, or one for each cause (the default).")
]
FixBudget = Annotated[
    float | None,
    typer.Option(min=0, help="CPU seconds for trying fixes of a launch with findings; 0: none.  [default: 2]"),
]
Fix = Annotated[bool, typer.Option("--fix", help="Print the verified edits as a patch.")]
Write = Annotated[bool, typer.Option("--write", help="With `--fix`: edit the files, after a confirmation.")]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", help="Format of the report; with all but `text`, the program prints to stderr.  [default: text]"
    ),
]
DataFormatOption = Annotated[DataFormat | None, typer.Option("--format", help="Format of the result.  [default: text]")]
BaselineOption = Annotated[
    str | None,
    typer.Option("--baseline", metavar="FILE", help="Accept the findings in this file, which `wsemu baseline` writes."),
]
StatisticsOption = Annotated[
    bool | None, typer.Option("--statistics/--no-statistics", help="Count the findings by code at the end.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Check again after each change of a source, until Ctrl+C.")]
SaveWitness = Annotated[
    str | None,
    typer.Option("--save-witness", metavar="DIR", help="Save the schedule of each error in DIR, for `wsemu replay`."),
]
CertificateOption = Annotated[
    str | None,
    typer.Option(
        "--certificate", metavar="FILE", help="Write the traces of verified launches to FILE, for `wsemu-certify`."
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Stop after this time (more than 0), and report the results so far."),
]
Module = Annotated[bool, typer.Option("-m", help="FILE is the name of a module, as for `python -m`.")]
On = Annotated[
    str,
    typer.Option(metavar="tcp://HOST:PORT", help="Run on the Dask cluster with this scheduler.", show_default=False),
]
ProgressOption = Annotated[
    Progress, typer.Option("--progress", help="A bar on a terminal, or lines of JSON on standard error.")
]
Entry = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help=".cu, .ptx: the kernel, by its C++ or PTX name or a prefix of it.  [default: the only one]"
    ),
]
Grid = Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help=".cu, .ptx: CTAs.", show_default=False)]
Block = Annotated[
    str | None, typer.Option(metavar="X[,Y[,Z]]", help=".cu, .ptx: threads of a CTA.", show_default=False)
]
Arg = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ARG",
        help=".cu, .ptx: an argument, such as i32:7, f32[64,64]:random or x.npy (repeatable, in order).",
        show_default=False,
    ),
]
DynamicShared = Annotated[
    str | None, typer.Option(metavar="BYTES", help=".cu, .ptx: dynamic shared memory of a CTA.  [default: 0]")
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.npz", help=".cu, .ptx: write the arrays to FILE.npz after the launch, as arg0, arg1, ..."
    ),
]
Like = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.json",
        help=".cu, .ptx: take the settings from a launch file; other options override them.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="N[,N[,N]]", help=".cu, .ptx: CTAs of a cluster.  [default: as the PTX declares, or 1]"),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=".cu, .ptx: the value of a `__device__` or `__constant__` variable, written as for `--arg` (repeatable).",
        show_default=False,
    ),
]
SourceRoot = Annotated[
    list[str] | None,
    typer.Option(
        "--source-root",
        metavar="DIR",
        callback=_set_source_roots,
        expose_value=False,
        help=".cu, .ptx: also show sources below this folder, besides its own and the working folder (repeatable).",
    ),
]
Link = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE.ptx", help=".cu, .ptx: a file that defines what FILE only declares (repeatable)."),
]
Nvcc = Annotated[
    list[str] | None,
    typer.Option(
        "--nvcc",
        metavar="FLAGS",
        help=".cu: flags of `nvcc`, such as '-std=c++20 -Iinclude -DDEPTH=3' (repeatable).",
        show_default=False,
    ),
]
