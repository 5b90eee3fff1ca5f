"""The command line.  What takes time to import is imported by the command that needs it: `wsemu --help` is fast.

Exit codes: 0 verified, 1 an error was found (or the program itself failed), 2 wrong usage or a kernel that does not
compile, 3 incomplete, 4 an error of wsemu itself, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from wsemu import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


GARBAGE = 20_000
"""objects between two looks for garbage: what a command loads stays, and looking costs it a tenth of its time"""


class _Commands(TyperGroup):
    """The commands; what is wrong with their options is said as every other error is: `error: ...`, without the control
    characters of a word that is given."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _cleaned():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _cleaned():
            return super().invoke(ctx)


@contextlib.contextmanager
def _cleaned() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        is_help = type(error).__name__ == "NoArgsIsHelpError"  # its message is no user's, and has lines
        if isinstance(getattr(error, "message", None), str) and not is_help:
            from wsemu.report.diagnostic import clean

            error.message = clean(error.message)  # type: ignore[attr-defined]
            error.show = functools.partial(_show, error)  # type: ignore[attr-defined]
        raise


def _show(error: Any, file: IO[str] | None = None) -> None:
    """What typer writes for a wrong option, in wsemu's words: usage, where help is, and one line that begins small."""
    context = getattr(error, "ctx", None)
    lines = [context.get_usage(), f"try `{context.command_path} --help`", ""] if context else []
    message = str(error.format_message())
    said = message[:1].lower() + message[1:].rstrip(".")
    typer.echo("\n".join([*lines, f"error: {said}"]), file=file or sys.stderr)


app = typer.Typer(
    cls=_Commands,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    """The form that findings are written in."""

    text = "text"
    json = "json"
    github = "github"
    sarif = "sarif"


class Progress(StrEnum):
    """How a campaign shows how far it is."""

    bar = "bar"
    json = "json"
    none = "none"


class Sums(StrEnum):
    hardware = "hardware"
    exact = "exact"


class Engine(StrEnum):
    """Which interpreter runs the launch."""

    vm = "vm"
    reference = "reference"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wsemu {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run warp-specialized GPU kernels on a CPU and say whether they are correct."""


def _codes(incomplete: str) -> list[tuple[str, str]]:
    """What a shell offers for a finding code, with its meaning."""
    from wsemu.model.codes import CODES

    return [(code, meaning) for code, (_, meaning, *_) in CODES.items() if code.startswith(incomplete)]


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A Python program that launches kernels, or a PTX file.", show_default=False),
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its own arguments.", show_default=False)]
Arch = Annotated[str | None, typer.Option(help="Architecture whose limits hold.  [default: sm_90]")]
Fma = Annotated[
    bool | None,
    typer.Option(
        "--fma/--no-fma", help="Contract a * b + c into one rounding, as the GPU's compiler does (the default)."
    ),
]
MmaOption = Annotated[
    Sums | None,
    typer.Option("--mma", help="Sums of matrix instructions; `exact`: rounded once.  [default: hardware]"),
]
Budget = Annotated[int | None, typer.Option(min=1, help="Warp instructions after which a launch ends as incomplete.")]
EngineOption = Annotated[Engine | None, typer.Option(help="`reference` is slow and simple.  [default: vm]")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECKER", help="Look for this alone (repeatable); a finding code will do."),
]
Skip = Annotated[
    list[str] | None, typer.Option(metavar="CHECKER", help="Do not look for this (repeatable).", show_default=False)
]
Lockstep = Annotated[
    bool | None,
    typer.Option("--lockstep/--no-lockstep", help="The lanes of a warp run together, as before sm_70."),
]
NumbaPtx = Annotated[
    bool | None,
    typer.Option(
        "--numba-ptx/--no-numba-ptx",
        help="Run kernels that wsemu does not read from Numba-CUDA's PTX, where it is installed (the default).",
    ),
]
Strict = Annotated[
    bool | None,
    typer.Option("--strict/--no-strict", help="Note what is right, and looks like a mistake; `proxy-war` is an error."),
]
Every = Annotated[
    bool | None,
    typer.Option(
        "--every/--no-every", help="Say for which other launches a verified one speaks: contents, trip counts."
    ),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(metavar="CODE", help="Count this warning as an error (repeatable).", autocompletion=_codes),
]
KernelOption = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="NAME", help="Check launches of this kernel alone (repeatable); * and ? match."),
]
Limit = Annotated[int | None, typer.Option(min=0, help="Show so many findings; all of them count.")]
All = Annotated[bool | None, typer.Option("--all/--causes", help="Show every finding in full, not one of each cause.")]
FixBudget = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds in which edits are tried for a launch with findings; 0: none.  [default: 2]"),
]
Fix = Annotated[bool, typer.Option("--fix", help="Print the proven edits as a patch.")]
Write = Annotated[bool, typer.Option("--write", help="With `--fix`: ask, and edit the files.")]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", help="How to say it; what the program prints goes to stderr but for text.  [default: text]"
    ),
]
SaveWitness = Annotated[
    str | None,
    typer.Option("--save-witness", metavar="DIR", help="Save the schedule of each error there, for `wsemu replay`."),
]
TimeLimit = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0.0, help="Stop after this long, and tell what is known.")
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
        metavar="NAME", help="PTX: the kernel, by its C++ or PTX name, or how that begins.  [default: the only one]"
    ),
]
Grid = Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="PTX: CTAs.", show_default=False)]
Block = Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="PTX: threads of a CTA.", show_default=False)]
Arg = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ARG",
        help="PTX: an argument, such as i32:7, f32[64,64]:random or x.npy (repeatable, in order).",
        show_default=False,
    ),
]
DynamicShared = Annotated[
    str | None, typer.Option(metavar="BYTES", help="PTX: dynamic shared memory of a CTA.  [default: 0]")
]
Out = Annotated[
    str | None, typer.Option(metavar="FILE.npz", help="PTX: write the arrays there afterwards, as arg0, arg1, ...")
]
Like = Annotated[
    str | None,
    typer.Option(metavar="FILE.json", help="PTX: a file with all of this; options go before it.", show_default=False),
]
Cluster = Annotated[
    str | None, typer.Option(metavar="N[,N[,N]]", help="PTX: CTAs of a cluster.  [default: as the kernel asks, or 1]")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="PTX: the value of a `__device__` or `__constant__` variable, as of an argument (repeatable).",
        show_default=False,
    ),
]
Link = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE.ptx", help="PTX: a file to link with, for what FILE does not define (repeatable)."),
]
_LAUNCH = ("entry", "grid", "block", "arg", "dynamic_shared", "cluster", "set", "link", "out", "like")
"""options of a launch, for PTX files alone"""
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_EXIT_CODES = (
    "Options may stand in `[tool.wsemu]` of pyproject.toml too, under the same names.  "
    "Exit codes: 0 all verified, 1 an error was found, 2 wrong usage, 3 incomplete, 4 an error of wsemu itself."
)


_CHECK = """Run FILE and check every launch in it.  Options come before FILE; what follows it is for the program.

Programs that import `numba.cuda` run as they are, with or without Numba-CUDA and a GPU.  A kernel of a PTX file is
launched as options say, which may stand behind FILE then, or as a launch file (.json) does, which can be FILE itself,
as can a folder of them."""
_RUN = "Run FILE, as `check` does, and say little: errors, and one line at the end."


class _Command(TyperCommand):
    """A command that runs a program: what follows FILE is for the program, but not where that is PTX."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with contextlib.suppress(Exception):  # what is wrong with them is reported when they are parsed in earnest
            given, _, _ = self.make_parser(ctx).parse_args(list(args))
            ctx.allow_interspersed_args = str(given.get("file")).lower().endswith(".ptx")
        return super().parse_args(ctx, args)


def _checking(*, quiet: bool) -> Callable[..., None]:
    """The command that runs a program and checks its launches; `check` and `run` have the same options."""

    def command(
        context: typer.Context,
        file: File,
        arguments: Arguments = None,
        arch: Arch = None,
        fma: Fma = None,
        mma: MmaOption = None,
        budget: Budget = None,
        engine: EngineOption = None,
        only: Only = None,
        skip: Skip = None,
        numba_ptx: NumbaPtx = None,
        lockstep: Lockstep = None,
        strict: Strict = None,
        every: Every = None,
        fail_on: FailOn = None,
        kernel: KernelOption = None,
        limit: Limit = None,
        time_limit: TimeLimit = None,
        all: All = None,  # noqa: A002 - the option's name
        fix_budget: FixBudget = None,
        fix: Fix = False,
        write: Write = False,
        format: FormatOption = None,  # noqa: A002
        save_witness: SaveWitness = None,
        module: Module = False,
        entry: Entry = None,
        grid: Grid = None,
        block: Block = None,
        arg: Arg = None,
        dynamic_shared: DynamicShared = None,
        cluster: Cluster = None,
        set: Set = None,  # noqa: A002
        link: Link = None,
        out: Out = None,
        like: Like = None,
    ) -> None:
        from wsemu.app import commands

        launch = _launch(context)
        given = {name.replace("_", "-"): context.params[name] for name in context.params if name not in _LAUNCH}
        for name in ("file", "arguments", "module", "fix", "write"):
            del given[name]
        given = {name: _plain(value) for name, value in given.items() if value not in (None, [], ())}
        misplaced = _options_among(arguments or [], context)
        fixing = commands.Fixing(fix or write, write)
        options: dict[str, Any] = {"quiet": quiet, "misplaced": misplaced, "fixing": fixing, "module": module}
        raise typer.Exit(commands.check(file, arguments or [], given, launch, **options))

    return command


def _launch(context: typer.Context) -> dict[str, Any]:
    """The options of a launch that were given."""
    given = {name: context.params[name] for name in _LAUNCH}
    return {name: value for name, value in given.items() if value not in (None, [], ())}


def _plain(value: Any) -> Any:
    """A value as TOML would give it."""
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _options_among(arguments: list[str], context: typer.Context) -> list[str]:
    """Those of a program's arguments that are options of the command, up to a `--`."""
    options = [parameter for parameter in context.command.params if parameter.name not in _LAUNCH]
    names = {name for parameter in options for name in (*parameter.opts, *parameter.secondary_opts)}
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return [name for name in (argument.partition("=")[0] for argument in own) if name.startswith("-") and name in names]


app.command("check", cls=_Command, context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_CHECK)(_checking(quiet=False))
app.command("run", cls=_Command, context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_RUN)(_checking(quiet=True))


@app.command(
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 the GPU agrees, 1 it differs or an error was found, 2 wrong usage or no GPU, 3 incomplete.",
)
def crosscheck(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A Python program that launches kernels.", show_default=False)
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Its own arguments.", show_default=False)
    ] = None,
    launches: Annotated[int, typer.Option(min=1, help="Runs of each launch on the GPU.")] = 20,
    ulps: Annotated[int, typer.Option(min=0, help="Allowed for floats where a kernel calls library functions.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="That a launch may take on the GPU.")] = 30.0,
    force: Annotated[
        bool, typer.Option("--force", help="Send also what is not verified to the GPU: it may hang.")
    ] = False,
) -> None:
    """Run FILE on the emulator, then every launch of it on a GPU, and compare all arrays."""
    from wsemu.app import commands, program

    commands.warn(_options_among(arguments or [], context))
    options = {"launches": launches, "ulps": ulps, "seconds": seconds, "force": force}
    raise typer.Exit(program.crosscheck(file, arguments or [], options))


@app.command(epilog="Exit codes: 1 replayed, the bug is there, 2 wrong usage, or source or arguments have changed.")
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


@app.command(cls=_Command, context_settings=_PROGRAM, epilog=_EXIT_CODES)
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
    entry: Entry = None,
    grid: Grid = None,
    block: Block = None,
    arg: Arg = None,
    dynamic_shared: DynamicShared = None,
    cluster: Cluster = None,
    set: Set = None,  # noqa: A002
    link: Link = None,
    out: Out = None,
    like: Like = None,
) -> None:
    """Run FILE and draw what the warps of one CTA did, step by step: waits, barrier generations, findings."""
    from wsemu.app import commands, trace_program

    commands.warn(_options_among(arguments or [], context))
    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget, "engine": engine and engine.value}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    wanted = trace_program.Wanted(launch, cta, first, output)
    raise typer.Exit(trace_program.run(file, arguments or [], given, wanted, _launch(context)))


@app.command(cls=_Command, context_settings=_PROGRAM, epilog=_EXIT_CODES)
def debug(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    cta: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Step in this CTA.")] = "0",
    thread: Annotated[str, typer.Option(metavar="X[,Y[,Z]]", help="Step this thread of it.")] = "0",
    break_: Annotated[
        list[int] | None, typer.Option("--break", metavar="LINE", help="Stop at this line first (repeatable).")
    ] = None,
    launch: Annotated[
        int | None, typer.Option(min=1, help="Step through this launch alone, from 1.  [default: all]")
    ] = None,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
) -> None:
    """Run FILE and step through its kernels by hand: statements, variables by their names, and back."""
    from wsemu.app import commands, debugger

    commands.warn(_options_among(arguments or [], context))
    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    how = {"cta": cta, "thread": thread, "breakpoints": break_ or [], "launch": launch}
    raise typer.Exit(debugger.command(file, arguments or [], given, how))


@app.command(cls=_Command, context_settings=_PROGRAM, epilog=_EXIT_CODES)
def lean(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    kernel: KernelOption = None,
    arch: Arch = None,
    budget: Budget = None,
) -> None:
    """Run FILE, take each barrier, fence and atomic out in turn, and say which ones the proofs do not need."""
    from wsemu.app import commands
    from wsemu.app import lean as lean_program

    commands.warn(_options_among(arguments or [], context))
    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    raise typer.Exit(lean_program.run(file, arguments or [], given))


@app.command(
    epilog="Exit codes: 0 all examples passed, 1 one failed, 2 wrong usage, 130 interrupted; what is known is kept.",
)
def fuzz(
    test: Annotated[
        str, typer.Argument(metavar="FILE::function", help="A test decorated with @given.", show_default=False)
    ],
    examples: Annotated[int, typer.Option(min=1, help="Of the campaign, those known from before included.")] = 10_000,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.  [default: one for each processor]")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other examples.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Examples that run in one go: kept all or none.")] = 200,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The result file.  [default: .wsemu/fuzz/FILE-function.sqlite]")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what is known of this test and seed.")] = False,
    on: On = "",
    progress: ProgressOption = Progress.bar,
    time_limit: TimeLimit = None,
) -> None:
    """Run many examples of a Hypothesis test.  Interrupted or killed, the same command goes on where it was."""
    from wsemu.campaign import fuzz

    options = {"examples": examples, "batch": batch, "seed": seed}
    how: dict[str, Any] = {"fresh": fresh, "on": on, "progress": progress.value, "time_limit": time_limit}
    raise typer.Exit(fuzz.command(test, options, jobs, results, **how))


@app.command(
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
    most: Annotated[int | None, typer.Option(min=0, help="The largest size that is chosen.  [default: 4096]")] = None,
    tries: Annotated[int, typer.Option(min=1, help="Sizes that are tried.")] = 200,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    on: On = "",
    progress: ProgressOption = Progress.bar,
    time_limit: TimeLimit = None,
    format: FormatOption = None,  # noqa: A002 - the option's name
) -> None:
    """Launch over the sizes at which such programs break: 0, 1, the depth of a pipeline, tiles plus and minus one."""
    from wsemu.campaign import sweep_command

    options = {"tries": tries, "time_limit": time_limit}
    as_json = format is not None and format.value == "json"
    how: dict[str, Any] = {"jobs": jobs, "on": on, "progress": progress.value}
    raise typer.Exit(sweep_command.command(function, size or [], options, most=most, json_format=as_json, **how))


@app.command()
def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="A finding code.  [default: all of them, a line each]",
            show_default=False,
            autocompletion=_codes,
        ),
    ] = None,
) -> None:
    """Explain a finding: the bug, a kernel that has it, the same kernel without it, what the hardware does."""
    from wsemu.app import commands

    raise typer.Exit(commands.explain(code))


@app.command(epilog="Exit codes: 0 wsemu works here, 1 it does not.")
def doctor() -> None:
    """Say what wsemu runs with: versions, the compiled VM and its cache, the GPU, the configuration."""
    from wsemu.app import commands

    raise typer.Exit(commands.doctor())


def main() -> None:
    """The `wsemu` command: whatever goes wrong ends with a message and an exit code."""
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    if sys.stdout is None or sys.stderr is None:  # closed from the start
        nowhere = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    try:
        app(prog_name="wsemu")
    except Exception as error:
        code = _unexpected(error)
        _drop_output()
        sys.exit(code)


def _unexpected(error: Exception) -> int:
    """Say what went wrong, also where a program has changed Python itself."""
    try:
        from wsemu.app import commands

        return commands.unexpected(error)
    except Exception:
        os.write(2, b"internal error: nothing works any more: did the program change Python itself?\n")
        return 4


def _drop_output() -> None:
    """Let go of output that cannot be written: Python would try again at its end."""
    try:
        sys.stdout.flush()
    except Exception:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
