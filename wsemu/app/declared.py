"""Declarations of commands: each is imported when it is used, and reports usage errors in wsemu's format."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from wsemu import __version__
from wsemu.app import front_page
from wsemu.app.exit_codes import INTERRUPTED
from wsemu.app.option_groups import group_parameters
from wsemu.app.program_file import LAUNCH_OPTIONS, has_main, is_launch
from wsemu.app.program_kind import find_command
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class _Made(Mapping[str, Any]):
    """The commands by name, each created on first use, so that the start of a command creates no other one."""

    def __init__(self, declared: dict[str, typer.Typer]) -> None:
        self._declared, self._made = declared, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = typer.main.get_command(self._declared[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


class _Commands(TyperGroup):
    """The commands.  They report errors in their options in wsemu's format: `error: ...`, without control characters
    from the given words."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _COMMANDS  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page of `wsemu --help`, which is also printed without this module."""
        formatter.write(front_page.page())

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _reporting_aborts():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _reporting_aborts():
            return super().invoke(ctx)


@contextlib.contextmanager
def _reporting_aborts() -> Iterator[None]:
    """Report errors and interrupts that end a command early."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        # its message is a help page of several lines, not an error of the user
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        if isinstance(getattr(error, "message", None), str) and not is_help:
            from wsemu.report.diagnostic import clean

            error.message = clean(_with_suggestion(error, _reworded_message(error)))  # type: ignore[attr-defined]
            if hasattr(error, "possibilities"):
                error.possibilities = None
            error.show = functools.partial(_show, error)  # type: ignore[attr-defined]
        raise


def _reworded_message(error: Any) -> str:
    """Return the message for a wrong option; newer versions of typer show Pydantic's texts instead."""
    listed = getattr(error.__cause__, "errors", None)
    if listed is None:
        return str(error.message)
    from wsemu.model.wrong_value import expected_text

    first = listed()[0]
    if first["type"] == "value_error":  # for a choice, the message lists the allowed values
        return str(first["ctx"]["error"])
    return f"give {expected_text(first)}"


def _with_suggestion(error: Any, message: str) -> str:
    """Add the closest name to a message about an option or a command that does not exist."""
    from wsemu.app.option_groups import suggestion

    context = getattr(error, "ctx", None)
    if context is None or "o such " not in message:
        return message
    if isinstance(context.command, _Commands) and "o such command" in message:
        word = message.partition("'")[2].partition("'")[0]
        if Path(word).exists():
            return f"No such command '{word}': give a command before the file, as in `wsemu check {word}`"
        return suggestion(message, _COMMANDS)
    return suggestion(message, (flag for p in context.command.params for flag in (*p.opts, *p.secondary_opts)))


def _has_option(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _show(error: Any, file: IO[str] | None = None) -> None:
    """Print a usage error: usage, a hint to the help, and one line that begins in lowercase."""
    context = getattr(error, "ctx", None)
    lines = [context.get_usage(), f"try `{context.command_path} --help`", ""] if context else []
    message = str(error.format_message())
    said = message[:1].lower() + message[1:].rstrip(".")
    name = getattr(error, "option_name", None)
    if name and context and isinstance(context.command, _Commands):
        having = next((command for command, made in _COMMANDS.items() if _has_option(made, name)), None)
        said += f" before the command: give it behind, as in `wsemu {having} {name}`" if having else ""
    typer.echo("\n".join([*lines, f"error: {said}"]), file=file or sys.stderr)


app = typer.Typer(
    cls=_Commands,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_DECLARED: dict[str, typer.Typer] = {}


_COMMANDS = _Made(_DECLARED)


def command(name: str, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare the command with this name; `options` are those of typer."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        one = _DECLARED[name] = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        one.command(name, short_help=front_page.COMMANDS[name], **{"cls": OwnCommand, **options})(function)
        return function

    return declare


def declared_commands() -> Mapping[str, Any]:
    """Return the commands by name."""
    return _COMMANDS


def options_with_values(name: str) -> frozenset[str]:
    """Return the options of a command that take a value."""
    options = (p for p in _COMMANDS[name].params if p.param_type_name == "option" and not p.is_flag)
    return frozenset(option for parameter in options for option in parameter.opts)


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
    """Find deadlocks, races and memory errors in CUDA kernels, on a CPU."""


class OwnCommand(TyperCommand):
    """A command whose option values cannot be an option, `--` or an empty word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, self.options_first(args))
        except _MissingValue as missing:
            return super().parse_args(ctx, [missing.option])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options in groups."""
        for title, parameters in group_parameters(self.get_params(ctx)).items():
            records = filter(None, (parameter.get_help_record(ctx) for parameter in parameters))
            with formatter.section(title):
                formatter.write_dl([*records])

    def options_first(self, args: list[str]) -> list[str]:
        """Return the words in the order in which they are parsed."""
        words, options = iter(args), list[str]()
        for word in words:
            options += [word, *(words if word == "--" else self.values(word, words))]
        return options

    def values(self, word: str, words: Iterator[str]) -> list[str]:
        """Return the words that belong to the option `word`; an empty result if `word` is not an option."""
        name, equals, value = word.partition("=")
        taken = self.taken_values()
        if equals and not value and taken.get(name, 0):
            raise _MissingValue(name)
        given = [*itertools.islice(words, taken.get(word, 0))]
        if len(given) < taken.get(word, 0) or any(not one or one == "--" or one in taken for one in given):
            raise _MissingValue(word)
        return given

    def taken_values(self) -> dict[str, int]:
        """Return the number of words that each option takes after its name."""
        options = [p for p in self.params if p.param_type_name == "option"]
        return {
            name: 0 if getattr(p, "is_flag", False) else p.nargs
            for p in options
            for name in (*p.opts, *p.secondary_opts)
        }


def _runs_as_it_is(file: str, *, is_module: bool) -> bool:
    """Return whether FILE, or the module of this name, is a program that runs as it is."""
    if not is_module:
        return find_command(Path(file), ()) is not None
    from wsemu.app.commands import source_of_module

    try:
        return find_command(source_of_module(file), (), file) is not None
    except UsageError:  # reported when the module is to run
        return False


class _MissingValue(Exception):
    """An option has no value."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


class ProgramCommand(OwnCommand):
    """A command that runs a file: options of the command may be anywhere on the line.

    The words after `--` belong to the program if `--` follows FILE, and so does every other word after FILE that is not
    an option of the command.  Every word after a program that runs as it is belongs to the program.  A PTX file, a
    launch file and a folder of launch files take no arguments.
    """

    def options_first(self, args: list[str]) -> list[str]:
        """Return the words with all options of the command before FILE."""
        words, options = iter(args), list[str]()
        for word in words:
            if word == "--":
                return [*options, "--", *words]
            if not word:  # there is no file
                return options
            if not word.startswith("-") or word == "-":
                return [*options, *self._after_file(word, words, is_module="-m" in options)]
            options += [word, *self.values(word, words)]
        return options

    def _after_file(self, file: str, words: Iterator[str], *, is_module: bool) -> Iterator[str]:
        """Yield the options among the words after FILE, then FILE and the remaining words."""
        following = [*words]
        if _runs_as_it_is(file, is_module=is_module):
            yield from (file, *self._words_of_program(file, following))
            return
        is_data, own, words = self._is_data(Path(file), following), list[str](), iter(following)
        for word in words:
            if word == "--":
                own += words
            elif word.startswith("-") if is_data else self._is_option(word):
                yield from (word, *self.values(word, words))
            else:
                self._warn_of_slip(word, file)
                own.append(word)
        yield from (file, *own)

    def _words_of_program(self, file: str, words: Sequence[str]) -> Sequence[str]:
        """Return the arguments of a program that runs as it is, without a `--` before them.  Without it, note which of
        them are options of the command as well."""
        if words[:1] == ["--"]:
            return words[1:]
        names = (word.partition("=")[0] for word in words if self._is_option(word))
        for name in dict.fromkeys(names):
            typer.echo(f"note: `{name}` is an argument of {file}; options of wsemu precede the program", err=True)
        for word in words:
            self._warn_of_second_program(word, file)
        return words

    def _warn_of_slip(self, word: str, file: str) -> None:
        """Warn about a word for the program that looks like a misspelled option of the command, or like a second
        program."""
        import difflib

        self._warn_of_second_program(word, file)
        name = word.partition("=")[0]
        options = [flag for p in self.params for flag in (*p.opts, *p.secondary_opts) if self._is_option(flag)]
        near = difflib.get_close_matches(name, options, 1, 0.85) if name.startswith("--") else []
        if near:
            remedy = f"did you mean `{near[0]}`? If not, write it after `--`"
            typer.echo(f"note: `{name}` is an argument of {file}: {remedy}", err=True)

    def _warn_of_second_program(self, word: str, file: str) -> None:
        if self.name in ("check", "run") and file.endswith(".py") and word.endswith(".py") and Path(word).is_file():
            remedy = "check several programs with `python -m wsemu.app.each`; if it is an argument, write it after `--`"
            typer.echo(f"note: `{word}` is an argument of {file}, and is not checked: {remedy}", err=True)

    def _is_data(self, file: Path, words: Sequence[str]) -> bool:
        """Return whether a file takes no arguments; CUDA C++ with a `main` does, unless the words contain a launch
        option."""
        given = words[: words.index("--")] if "--" in words else words
        launch_options = {option for p in self.params if p.name in LAUNCH_OPTIONS for option in p.opts}
        has_launch = any(word.partition("=")[0] in launch_options - {"--nvcc"} for word in given)
        return is_launch(file) and (has_launch or not has_main(file))

    def _is_option(self, word: str) -> bool:
        """Return whether a word after the file of a program is an option of the command; `-m`, `--help`, and launch
        options for PTX belong to the program."""
        name = word.partition("=")[0]
        own = (*LAUNCH_OPTIONS, "help", "module")
        parameters = (p for p in self.params if p.name not in own or p.name == "nvcc")
        return word.startswith("-") and any(name in (*p.opts, *p.secondary_opts) for p in parameters)
