"""The commands and their options.  Each command imports the modules that take time to import only when it needs
them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsemu.app.declared import ProgramCommand, app, command
from wsemu.app.options import (
    All,
    AllowIncomplete,
    Arch,
    Arg,
    Arguments,
    BaselineOption,
    Block,
    Budget,
    CertificateOption,
    ClcOption,
    Cluster,
    Corners,
    DataFormatOption,
    DynamicShared,
    Effort,
    EngineOption,
    Entry,
    Every,
    FailOn,
    File,
    Fix,
    FixBudget,
    Fma,
    FormatOption,
    Grid,
    Heap,
    KernelOption,
    LaunchCount,
    LaunchSkip,
    Like,
    Limit,
    Link,
    Lockstep,
    ManagedOption,
    MmaOption,
    Module,
    NumbaPtx,
    Nvcc,
    On,
    Only,
    Out,
    PageableOption,
    Progress,
    ProgressOption,
    Ranks,
    SaveLaunches,
    SaveWitness,
    Set,
    Skip,
    Sms,
    SourceRoot,
    StatisticsOption,
    Strict,
    TierOption,
    TimeLimit,
    Watch,
    Write,
    codes,
)  # fmt: skip
from wsemu.app.program_file import LAUNCH_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["app"]

_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_EXIT_CODES = (
    "`[tool.wsemu]` in pyproject.toml takes the same options, under the same names.  "
    "Exit codes: 0 all verified, 1 an error was found, 2 wrong usage, 3 incomplete, 4 an internal error."
)


_CHECK = """Run FILE and check every launch in it.  Options may appear anywhere; other words after FILE go to the
program, and so does everything after `--`.  All words after an executable, a script or a Python file with torch, Triton
or CuPy go to it.

Programs that import `numba.cuda` run unchanged, with or without Numba-CUDA and a GPU. For a kernel in CUDA C++ (.cu,
which `nvcc` compiles) or PTX, options, a comment in FILE or a launch file (.json) describe the launch.  FILE can also
be a launch file, or a folder of them."""
_RUN = "Run FILE like `check`, but print only errors and one line at the end."
_BASELINE = """Run FILE like `check`, and write its findings to the file that `--baseline` names, or to
wsemu-baseline.json.  `wsemu check --baseline` accepts these findings, and fails on new ones.

A finding is identified by its code, kernel, arrays and source text, so it may move to other lines.  The file keeps the
findings of other programs."""


def _checking(*, quiet: bool = False, accept: bool = False) -> Callable[..., None]:
    """Return the command that runs a program and checks its launches; `check`, `run` and `baseline` share their
    options."""

    def checks(
        context: typer.Context,
        file: File,
        arguments: Arguments = None,
        arch: Arch = None,
        sms: Sms = None,
        clc: ClcOption = None,
        ranks: Ranks = None,
        effort: Effort = None,
        heap: Heap = None,
        fma: Fma = None,
        mma: MmaOption = None,
        budget: Budget = None,
        engine: EngineOption = None,
        tier: TierOption = None,
        only: Only = None,
        skip: Skip = None,
        numba_ptx: NumbaPtx = None,
        lockstep: Lockstep = None,
        strict: Strict = None,
        managed: ManagedOption = None,
        pageable: PageableOption = None,
        every: Every = None,
        corners: Corners = None,
        fail_on: FailOn = None,
        allow_incomplete: AllowIncomplete = None,
        kernel: KernelOption = None,
        launch_skip: LaunchSkip = None,
        launch_count: LaunchCount = None,
        save_launches: SaveLaunches = None,
        limit: Limit = None,
        time_limit: TimeLimit = None,
        progress: ProgressOption = Progress.bar,
        all: All = None,  # noqa: A002 - the option's name
        fix_budget: FixBudget = None,
        fix: Fix = False,
        write: Write = False,
        format: FormatOption = None,  # noqa: A002
        statistics: StatisticsOption = None,
        baseline: BaselineOption = None,
        watch: Watch = False,
        save_witness: SaveWitness = None,
        certificate: CertificateOption = None,
        module: Module = False,
        entry: Entry = None,
        grid: Grid = None,
        block: Block = None,
        arg: Arg = None,
        dynamic_shared: DynamicShared = None,
        cluster: Cluster = None,
        set: Set = None,  # noqa: A002
        link: Link = None,
        nvcc: Nvcc = None,
        source_root: SourceRoot = None,
        out: Out = None,
        like: Like = None,
    ) -> None:
        options: dict[str, Any] = {"quiet": quiet, "module": module, "progress": progress.value, "accept": accept}
        raise typer.Exit(_check_program(context, file, arguments or [], (fix or write, write), watch, options))

    return checks


def _check_program(
    context: typer.Context,
    file: Path,
    arguments: list[str],
    fixing: tuple[bool, bool],
    watch: bool,
    options: dict[str, Any],
) -> int:
    """Run a program, check its launches, and return the exit code; with `watch`, again after each change of a file."""
    from wsemu.app import commands

    launch = _launch(context)
    if watch:
        from wsemu.app.watch import watch_program

        return watch_program(sys.argv[1:])
    fix = commands.Fixing(*fixing)
    return commands.check(file, arguments, _configured_options(context), launch, fixing=fix, **options)


_OF_COMMAND = frozenset(("file", "arguments", "module", "fix", "write", "progress", "watch"))
"""parameters of a command that no configuration file has"""


def _configured_options(context: typer.Context) -> dict[str, Any]:
    """Return the given options that a configuration file may also have, as it would have them."""
    names = [name for name in context.params if name not in LAUNCH_OPTIONS and name not in _OF_COMMAND]
    given = {name.replace("_", "-"): context.params[name] for name in names}
    return {name: _to_toml_value(value) for name, value in given.items() if value not in (None, [], ())}


def _launch(context: typer.Context) -> dict[str, Any]:
    """Return the given options of a launch."""
    given = {name: context.params[name] for name in LAUNCH_OPTIONS}
    return {name: value for name, value in given.items() if value not in (None, [], ())}


def _to_toml_value(value: Any) -> Any:
    """Return a value as TOML would represent it."""
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


command("check", cls=ProgramCommand, context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_CHECK)(_checking(quiet=False))
command("run", cls=ProgramCommand, context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_RUN)(_checking(quiet=True))
command(
    "baseline",
    cls=ProgramCommand,
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 the baseline is written, 2 wrong usage, 4 an internal error.",
    help=_BASELINE,
)(_checking(accept=True))


@command("diff", epilog="Exit codes: 0 B has no new finding and no worse verdict, 1 it has, 2 wrong usage.")
def diff(
    before: Annotated[
        Path,
        typer.Argument(
            metavar="A.json",
            help="A report of `wsemu check --format json` or `wsemu time --json`.",
            show_default=False,
        ),
    ],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="A later report.", show_default=False)],
    format: DataFormatOption = None,  # noqa: A002 - the option's name
) -> None:
    """Compare two reports: new and fixed findings, verdicts, costs, predicted times."""
    from wsemu.app import diff_reports

    raise typer.Exit(diff_reports.run(before, after, as_json=format is not None and format.value == "json"))


@command(
    "crosscheck",
    cls=ProgramCommand,
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 the GPU agrees, 1 it differs or an error was found, 2 wrong usage or no GPU, 3 incomplete.",
)
def crosscheck(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A Python program that launches kernels, CUDA C++ (.cu) or PTX.", show_default=False
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Arguments of the program.", show_default=False),
    ] = None,
    launches: Annotated[int, typer.Option(min=1, help="Runs of each launch on the GPU.")] = 20,
    ulps: Annotated[
        int,
        typer.Option(
            min=0, help="Allowed difference of floats, in units in the last place, if library functions are called."
        ),
    ] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time that a launch may take on the GPU.")] = 30.0,
    force: Annotated[
        bool, typer.Option("--force", help="Also send unverified launches to the GPU, which may hang.")
    ] = False,
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    nvcc: Nvcc = None,
    source_root: SourceRoot = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE on the emulator, then every launch of it on a GPU, and compare all arrays."""
    from wsemu.app import program

    options = {"launches": launches, "ulps": ulps, "seconds": seconds, "force": force}
    raise typer.Exit(program.crosscheck(file, arguments or [], options, _launch(context)))


@command("replay", epilog="Exit codes: 1 replayed, the bug occurs, 2 wrong usage, or source or arguments have changed.")
def replay(
    witness: Annotated[
        Path,
        typer.Argument(metavar="WITNESS", help="A file of `wsemu check --save-witness DIR`.", show_default=False),
    ],
    program: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The program.  [default: the one that the witness names]")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Warp instructions of the replay, which is slow.")] = None,
) -> None:
    """Execute the schedule of a finding step by step: the race in both orders, the swapped barrier, the deadlock."""
    from wsemu.app import replay_program

    raise typer.Exit(replay_program.run(witness, program, budget))


@command("trace", cls=ProgramCommand, context_settings=_PROGRAM, epilog=_EXIT_CODES)
def trace(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write FILE.html, a page, or FILE.json, for Perfetto."),
    ] = None,
    launch: Annotated[
        int | None, typer.Option(min=1, help="The launch to draw, from 1.  [default: the first that failed, or 1]")
    ] = None,
    cta: Annotated[
        int | None, typer.Option(min=0, help="The CTA to draw.  [default: that of the first finding, or 0]")
    ] = None,
    first: Annotated[int | None, typer.Option("--from", min=0, help="The first step to draw.")] = None,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
    engine: EngineOption = None,
    tier: TierOption = None,
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    nvcc: Nvcc = None,
    source_root: SourceRoot = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE and draw what the warps of one CTA did, step by step: waits, barrier generations, findings."""
    from wsemu.app import trace_program

    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget, "engine": engine and engine.value}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    wanted = trace_program.Wanted(launch, cta, first, output)
    raise typer.Exit(trace_program.run(file, arguments or [], given, wanted, _launch(context)))


@command(
    "time",
    cls=ProgramCommand,
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 predicted, 1 an error was found, 2 wrong usage, 3 a time is not predicted.",
)
def time(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    device: Annotated[str, typer.Option(metavar="GPU", help="The GPU.")] = "H200",
    registers: Annotated[
        int, typer.Option(min=0, max=255, help="Registers per thread, as ptxas reports them.  [default: unknown]")
    ] = 0,
    cta: Annotated[
        int | None, typer.Option(min=0, help="The CTA whose executed instructions are used.  [default: 1]")
    ] = None,
    launch: Annotated[int | None, typer.Option(min=1, help="Predict only this launch, from 1.  [default: all]")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the waits to FILE.html, a page, or FILE.json."),
    ] = None,
    what_if: Annotated[
        str,
        typer.Option(
            metavar="NAME=VALUES",
            help="Predict other values of a constant of the program, or of `ctas` and `registers`: STAGES=2..6.",
        ),
    ] = "",
    stalls: Annotated[
        int | None,
        typer.Option(min=0, metavar="WARP", help="Also add up the stalls of a warp by the latencies of Fermi."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, as `--format json` does.")] = False,
    format: DataFormatOption = None,  # noqa: A002 - the option's name
    no_run: Annotated[bool, typer.Option("--no-run", help="Predict only: run and check no launch.")] = False,
    numba_ptx: NumbaPtx = None,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    nvcc: Nvcc = None,
    source_root: SourceRoot = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE and predict how long each launch takes on a GPU, what bounds it, and where its warps wait."""
    from wsemu.app import time_program

    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget, "numba-ptx": numba_ptx}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    as_json = json or (format is not None and format.value == "json")
    wanted = time_program.Wanted(
        device, registers, cta, launch, as_json=as_json, runs=not no_run, output=output, stalls=stalls
    )
    raise typer.Exit(time_program.run(file, arguments or [], given, wanted, _launch(context), what_if))


@command("debug", cls=ProgramCommand, context_settings=_PROGRAM, epilog=_EXIT_CODES)
def debug(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    cta: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Step in this CTA.")] = "0",
    thread: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Step this thread of the CTA.")] = "0",
    break_: Annotated[
        list[int] | None, typer.Option("--break", metavar="LINE", help="Run to this line before stepping (repeatable).")
    ] = None,
    launch: Annotated[
        int | None, typer.Option(min=1, help="Step through only this launch, from 1.  [default: all]")
    ] = None,
    dap: Annotated[
        bool, typer.Option("--dap", help="Act as an editor's debug adapter on standard input and output.")
    ] = False,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    nvcc: Nvcc = None,
    source_root: SourceRoot = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE and step through its kernels: statement by statement, forward and back, with variables by name."""
    from wsemu.app import debug_program

    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    how = {"cta": cta, "thread": thread, "breakpoints": break_ or [], "launch": launch, "dap": dap}
    raise typer.Exit(debug_program.run(file, arguments or [], given, how, _launch(context)))


@command("lean", cls=ProgramCommand, context_settings=_PROGRAM, epilog=_EXIT_CODES)
def lean(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
    tier: TierOption = None,
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    nvcc: Nvcc = None,
    source_root: SourceRoot = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE, remove each barrier, fence and atomic in turn, and report which ones the proofs do not need."""
    from wsemu.app import lean as lean_program

    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    raise typer.Exit(lean_program.run(file, arguments or [], given, _launch(context)))


@command(
    "fuzz",
    epilog="Exit codes: 0 all examples passed, 1 one failed, 2 wrong usage, 130 interrupted; results are kept.",
)
def fuzz(
    test: Annotated[
        str, typer.Argument(metavar="FILE::function", help="A test decorated with @given.", show_default=False)
    ],
    examples: Annotated[int, typer.Option(min=1, help="Examples in total, including those of earlier runs.")] = 10_000,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.  [default: one for each processor]")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the examples.")] = 0,
    batch: Annotated[
        int, typer.Option(min=1, help="Examples that run together; all or none of their results are kept.")
    ] = 200,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The result file.  [default: .wsemu/fuzz/FILE-function.sqlite]")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the earlier results of this test and seed.")] = False,
    on: On = "",
    tier: TierOption = None,
    progress: ProgressOption = Progress.bar,
    time_limit: TimeLimit = None,
) -> None:
    """Run many examples of a Hypothesis test.  After an interruption the same command resumes."""
    from wsemu.campaign import fuzz

    options = {"examples": examples, "batch": batch, "seed": seed}
    how: dict[str, Any] = {"fresh": fresh, "on": on, "progress": progress.value, "time_limit": time_limit}
    raise typer.Exit(fuzz.command(test, options, jobs, results, **how))


@command(
    "sweep",
    epilog="Exit codes: 0 all hold, 1 one fails, 2 wrong usage, 3 one is incomplete or none holds, 130 stopped early.",
)
def sweep(
    function: Annotated[
        str,
        typer.Argument(
            metavar="FILE::function", help="A function that launches kernels for sizes.", show_default=False
        ),
    ],
    size: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SIZES", help="Sizes of a parameter, such as n=0,1,30:34 (repeatable).", show_default=False
        ),
    ] = None,
    most: Annotated[int | None, typer.Option(min=0, help="The largest chosen size.  [default: 4096]")] = None,
    tries: Annotated[
        int,
        typer.Option(
            min=1, help="Number of chosen sizes; a few more are tried to find the smallest failure or the largest size."
        ),
    ] = 200,
    times: Annotated[
        bool, typer.Option("--time", help="Also predict how long the launches of each size take on an H200.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    on: On = "",
    tier: TierOption = None,
    progress: ProgressOption = Progress.bar,
    time_limit: TimeLimit = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
) -> None:
    """Check launches with sizes at which programs often fail: 0, 1, the depth of a pipeline, tiles plus or minus 1."""
    from wsemu.campaign import sweep_command

    options = {"tries": tries, "time_limit": time_limit}
    as_json = format is not None and format.value == "json"
    how: dict[str, Any] = {"jobs": jobs, "on": on, "progress": progress.value, "times": times}
    raise typer.Exit(sweep_command.command(function, size or [], options, most=most, json_format=as_json, **how))


@command(
    "mutate",
    epilog="Exit codes: 0 every mutant is killed or equivalent, 1 one survives, 2 wrong usage, or a test fails "
    "unchanged, 130 stopped early; results are kept.",
)
def mutate(
    test: Annotated[
        str,
        typer.Argument(
            metavar="FILE::test",
            help="A pytest test, a function that launches kernels, a FILE of tests, or a program.",
            show_default=False,
        ),
    ],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only mutants of this kind, such as barrier or bound (repeatable)."),
    ] = None,
    kernel: KernelOption = None,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Only every N-th mutant.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.  [default: one for each processor]")] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The result file.  [default: .wsemu/mutate/FILE-test.sqlite]")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the earlier results of this test.")] = False,
    all: Annotated[bool, typer.Option("--all", help="Also show the diffs of equivalent mutants.")] = False,  # noqa: A002
    tier: TierOption = None,
    progress: ProgressOption = Progress.bar,
    time_limit: TimeLimit = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Change the kernels of a test in one place at a time; report the mutants that no test and no check detects.

    After an interruption the same command resumes.
    """
    from wsemu.campaign import mutate_command

    how: dict[str, Any] = {"kinds": kind or (), "kernels": kernel or (), "sample": sample, "jobs": jobs or _cores()}
    how |= {"file": results, "fresh": fresh, "progress": progress.value, "time_limit": time_limit, "whole": all}
    as_json = format is not None and format.value == "json"
    raise typer.Exit(mutate_command.command(test, **how, json_format=as_json))


def _cores() -> int:
    import os

    return os.cpu_count() or 1


@command("explain")
def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A finding code.  [default: list all codes]",
            show_default=False,
            autocompletion=codes,
        ),
    ] = None,
) -> None:
    """Explain a finding code: what is wrong, an example, the fixed kernel, and what the hardware does."""
    from wsemu.app import commands

    raise typer.Exit(commands.explain(code))


@command("lsp", epilog="Exit codes: 0 the editor ended the session, 2 `pygls` is not installed.")
def lsp() -> None:
    """Serve an editor by the Language Server Protocol on standard input and output.  Whenever you save a file, it shows
    findings, fixes and costs.  It needs `pip install 'wsemu[editor]'`."""
    from wsemu.app import language_server

    raise typer.Exit(language_server.run())


@command("doctor", epilog="Exit codes: 0 wsemu works here, 1 it does not.")
def doctor() -> None:
    """Print the environment: versions, the compiled VM and its cache, the GPU, the configuration."""
    from wsemu.app import commands

    raise typer.Exit(commands.doctor())
