"""The command line.  What takes time to import is imported by the command that needs it: `wsemu --help` is fast.

Exit codes: 0 verified, 1 an error was found (or the program itself failed), 2 wrong usage or a kernel that does not
compile, 3 incomplete, 4 an error of wsemu itself, 130 interrupted.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from wsemu import __version__

if TYPE_CHECKING:
    from wsemu.settings import Settings

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
Arch = Annotated[str, typer.Option(help="Architecture whose limits hold.")]
Fma = Annotated[
    bool, typer.Option("--fma/--no-fma", help="Contract a * b + c into one rounding, as the GPU's compiler does.")
]
Budget = Annotated[int | None, typer.Option(min=1, help="Warp instructions after which a launch ends as incomplete.")]
EngineOption = Annotated[Engine, typer.Option(help="`reference` is slow and simple.")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECKER", help="Look for this alone (repeatable); a finding code will do."),
]
Skip = Annotated[
    list[str] | None, typer.Option(metavar="CHECKER", help="Do not look for this (repeatable).", show_default=False)
]
Lockstep = Annotated[bool, typer.Option("--lockstep", help="The lanes of a warp run together, as before sm_70.")]
FailOn = Annotated[list[str] | None, typer.Option(metavar="CODE", help="Count this warning as an error (repeatable).")]
_PROGRAM = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_EXIT_CODES = (
    "Exit codes: 0 all verified, 1 an error was found, 2 wrong usage, 3 incomplete, 4 an error of wsemu itself."
)


@app.command(context_settings=_PROGRAM, epilog=_EXIT_CODES)
def check(
    file: File,
    arguments: Arguments = None,
    arch: Arch = "sm_90",
    fma: Fma = True,
    budget: Budget = None,
    engine: EngineOption = Engine.vm,
    only: Only = None,
    skip: Skip = None,
    lockstep: Lockstep = False,
    fail_on: FailOn = None,
) -> None:
    """Run FILE and check every launch in it.  Options come before FILE; what follows it is for the program.

    Programs that import `numba.cuda` run as they are, with or without Numba-CUDA and a GPU.
    """
    _run(file, arguments, _settings(arch, fma, budget, engine, only, skip, lockstep, fail_on), quiet=False)


@app.command(context_settings=_PROGRAM, epilog=_EXIT_CODES)
def run(
    file: File,
    arguments: Arguments = None,
    arch: Arch = "sm_90",
    fma: Fma = True,
    budget: Budget = None,
    engine: EngineOption = Engine.vm,
    only: Only = None,
    skip: Skip = None,
    lockstep: Lockstep = False,
    fail_on: FailOn = None,
) -> None:
    """Run FILE, as `check` does, and say little: errors, and one line at the end."""
    _run(file, arguments, _settings(arch, fma, budget, engine, only, skip, lockstep, fail_on), quiet=True)


def _run(file: Path, arguments: list[str] | None, settings: Settings, quiet: bool) -> NoReturn:
    from wsemu import program

    raise typer.Exit(program.run(file, arguments or [], settings, quiet=quiet))


def _settings(
    arch: str,
    fma: bool,
    budget: int | None,
    engine: Engine,
    only: list[str] | None,
    skip: list[str] | None,
    lockstep: bool,
    fail_on: list[str] | None,
) -> Settings:
    """The settings that the options of the command line mean."""
    from wsemu import settings
    from wsemu.codes import checkers_named, finding_codes
    from wsemu.errors import UsageError

    defaults = settings.Settings()
    try:
        looking = checkers_named(only) if only else defaults.checkers
        chosen = settings.Settings(
            arch=arch,
            fma=fma,
            budget=defaults.budget if budget is None else budget,
            engine=engine.value,
            lockstep=lockstep,
            checkers=looking - checkers_named(skip or ()),
            fail_on=finding_codes(fail_on or ()),
        )
        if not chosen.checkers:
            raise UsageError("nothing left to look for: `--skip` takes away all that `--only` names")
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None
    return chosen


@app.command(
    context_settings=_PROGRAM,
    epilog="Exit codes: 0 the GPU agrees, 1 it differs or an error was found, 2 wrong usage or no GPU, 3 incomplete.",
)
def crosscheck(
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
    from wsemu import program

    options = {"launches": launches, "ulps": ulps, "seconds": seconds, "force": force}
    raise typer.Exit(program.crosscheck(file, arguments or [], options))


def main() -> None:
    """The `wsemu` command."""
    app(prog_name="wsemu")


if __name__ == "__main__":
    main()
