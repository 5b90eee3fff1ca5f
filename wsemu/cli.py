"""The command line.  What takes time to import is imported by the command that needs it: `wsemu --help` is fast.

Exit codes: 0 verified, 1 an error was found (or the program itself failed), 2 wrong usage or a kernel that does not
compile, 3 incomplete, 4 an error of wsemu itself, 130 interrupted.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsemu import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    """How findings are told."""

    text = "text"
    json = "json"
    github = "github"
    sarif = "sarif"


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


File = Annotated[Path, typer.Argument(help="A Python program that launches kernels.", show_default=False)]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="Its own arguments.", show_default=False)
]
Arch = Annotated[str | None, typer.Option(help="Architecture whose limits hold.  [default: sm_90]")]
Fma = Annotated[
    bool | None,
    typer.Option(
        "--fma/--no-fma", help="Contract a * b + c into one rounding, as the GPU's compiler does (the default)."
    ),
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
FailOn = Annotated[list[str] | None, typer.Option(metavar="CODE", help="Count this warning as an error (repeatable).")]
KernelOption = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="NAME", help="Check launches of this kernel alone (repeatable); * and ? match."),
]
Limit = Annotated[int | None, typer.Option(min=0, help="Show so many findings; all of them count.")]
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
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_EXIT_CODES = (
    "Options may stand in `[tool.wsemu]` of pyproject.toml too, under the same names.  "
    "Exit codes: 0 all verified, 1 an error was found, 2 wrong usage, 3 incomplete, 4 an error of wsemu itself."
)


_CHECK = """Run FILE and check every launch in it.  Options come before FILE; what follows it is for the program.

Programs that import `numba.cuda` run as they are, with or without Numba-CUDA and a GPU."""
_RUN = "Run FILE, as `check` does, and say little: errors, and one line at the end."


def _checking(*, quiet: bool) -> Callable[..., None]:
    """The command that runs a program and checks its launches; `check` and `run` have the same options."""

    def command(
        context: typer.Context,
        file: File,
        arguments: Arguments = None,
        arch: Arch = None,
        fma: Fma = None,
        budget: Budget = None,
        engine: EngineOption = None,
        only: Only = None,
        skip: Skip = None,
        lockstep: Lockstep = None,
        fail_on: FailOn = None,
        kernel: KernelOption = None,
        limit: Limit = None,
        format: FormatOption = None,  # noqa: A002 - the option's name
        save_witness: SaveWitness = None,
    ) -> None:
        from wsemu import commands

        given = {name.replace("_", "-"): context.params[name] for name in context.params}
        del given["file"], given["arguments"]
        given = {name: _plain(value) for name, value in given.items() if value not in (None, [], ())}
        misplaced = _options_among(arguments or [], context)
        raise typer.Exit(commands.check(file, arguments or [], given, quiet=quiet, misplaced=misplaced))

    return command


def _plain(value: Any) -> Any:
    """A value as TOML would give it."""
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _options_among(arguments: list[str], context: typer.Context) -> list[str]:
    """Those of a program's arguments that are options of the command, up to a `--`."""
    names = {name for parameter in context.command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return [name for name in (argument.partition("=")[0] for argument in own) if name.startswith("-") and name in names]


app.command("check", context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_CHECK)(_checking(quiet=False))
app.command("run", context_settings=_PROGRAM, epilog=_EXIT_CODES, help=_RUN)(_checking(quiet=True))


@app.command(
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 the GPU agrees, 1 it differs or an error was found, 2 wrong usage or no GPU, 3 incomplete.",
)
def crosscheck(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A Python program that launches kernels.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Its own arguments.", show_default=False)
    ] = None,
    launches: Annotated[int, typer.Option(min=1, help="Runs of each launch on the GPU.")] = 20,
    ulps: Annotated[int, typer.Option(min=0, help="Allowed for floats where a kernel calls library functions.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="That a launch may take on the GPU.")] = 30.0,
    force: Annotated[
        bool, typer.Option("--force", help="Send also what is not verified to the GPU: it may hang.")
    ] = False,
) -> None:
    """Run FILE on the emulator, then every launch of it on a GPU, and compare all arrays."""
    from wsemu import commands, program

    commands.warn(_options_among(arguments or [], context))
    options = {"launches": launches, "ulps": ulps, "seconds": seconds, "force": force}
    raise typer.Exit(program.crosscheck(file, arguments or [], options))


@app.command(epilog="Exit codes: 1 replayed, the bug is there, 2 wrong usage, or source or arguments have changed.")
def replay(
    witness: Annotated[Path, typer.Argument(help="A file of `wsemu check --save-witness DIR`.", show_default=False)],
    program: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The program.  [default: the one that the witness names]")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Warp instructions of the replay, which is slow.")] = None,
) -> None:
    """Execute the schedule of a finding step by step: the race in both orders, the swapped barrier, the deadlock."""
    from wsemu import replay_program

    raise typer.Exit(replay_program.run(witness, program, budget))


@app.command(context_settings=_PROGRAM, epilog=_EXIT_CODES)
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
) -> None:
    """Run FILE and draw what the warps of one CTA did, step by step: waits, barrier generations, findings."""
    from wsemu import commands, trace_program

    commands.warn(_options_among(arguments or [], context))
    options = {"kernel": list(kernel or ()), "arch": arch, "budget": budget, "engine": engine and engine.value}
    given = {name: value for name, value in options.items() if value not in (None, [])}
    wanted = trace_program.Wanted(launch, cta, first, output)
    raise typer.Exit(trace_program.run(file, arguments or [], given, wanted))


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
) -> None:
    """Run many examples of a Hypothesis test.  Interrupted or killed, the same command goes on where it was."""
    from wsemu import fuzz

    options = {"examples": examples, "batch": batch, "seed": seed}
    raise typer.Exit(fuzz.command(test, options, jobs, results, fresh=fresh))


@app.command()
def explain(
    code: Annotated[
        str | None, typer.Argument(help="A finding code.  [default: all of them, a line each]", show_default=False)
    ] = None,
) -> None:
    """Explain a finding: the bug, a kernel that has it, the same kernel without it, what the hardware does."""
    from wsemu import commands

    raise typer.Exit(commands.explain(code))


@app.command(epilog="Exit codes: 0 wsemu works here, 1 it does not.")
def doctor() -> None:
    """Say what wsemu runs with: versions, the compiled VM and its cache, the GPU, the configuration."""
    from wsemu import commands

    raise typer.Exit(commands.doctor())


def main() -> None:
    """The `wsemu` command."""
    app(prog_name="wsemu")


if __name__ == "__main__":
    main()
