"""The manual page `wsemu.1`, from the declarations of the commands: `python -m wsemu.app.manual > docs/man/wsemu.1`."""

from __future__ import annotations

import re
import sys
from enum import EnumType
from typing import TYPE_CHECKING, Any

from wsemu.app import command_line  # noqa: F401 - declares the commands
from wsemu.app.declared import declared_commands
from wsemu.app.front_page import COMMANDS, OPTIONS, SUMMARY
from wsemu.app.option_groups import ARGUMENTS, group_parameters
from wsemu.model.version import DOCS, __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_CODES = {
    0: "every launch is verified",
    1: "an error was found, or the program failed",
    2: "wrong usage, or a kernel that does not compile",
    3: "a launch is incomplete",
    4: "an internal error of wsemu",
    130: "interrupted",
}
GRAMMAR = (
    "Options may appear before or after the operand, for programs, CUDA C++, PTX, launch files and folders of them.  "
    "Words after FILE that are not options of the command are arguments of the program, and so is everything after --. "
    " Without a terminal, or with NO_COLOR, text is plain and 80 columns wide."
)


def manual_page() -> str:
    """Return the manual page in the man macros of roff."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH WSEMU 1 "" "wsemu {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"wsemu \\- {_roff(SUMMARY.rstrip('.').lower().replace('cuda', 'CUDA').replace('cpu', 'CPU'))}"
    yield ".SH SYNOPSIS"
    yield ".B wsemu"
    yield "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] \\fIFILE\\fR [\\fIARGUMENTS\\fR]"
    yield ".SH DESCRIPTION"
    yield _roff(f"{SUMMARY}  {GRAMMAR}")
    yield ".SH OPTIONS"
    yield from _entries(OPTIONS.items())
    yield ".SH COMMANDS"
    for name in COMMANDS:
        yield from _command_lines(name, declared_commands()[name])
    yield ".SH EXIT STATUS"
    yield from _entries((str(code), text) for code, text in EXIT_CODES.items())
    yield ".SH FILES"
    yield from _entries([("pyproject.toml", "[tool.wsemu] takes the same options, under the same names.")])
    yield ".SH SEE ALSO"
    yield _roff(DOCS)


def _command_lines(name: str, command: Any) -> Iterator[str]:
    groups = group_parameters(parameter for parameter in command.params if parameter.name != "help")
    operands = [_usage(parameter) for parameter in groups.get(ARGUMENTS, ())]
    yield f".SS {_roff(' '.join(['wsemu', name, '[OPTIONS]', *operands]))}"
    yield _roff(" ".join((command.help or "").split()))
    for title, parameters in groups.items():
        yield ".PP"
        yield f".B {_roff(title)}"
        yield from _entries((_parameter_name(parameter), parameter.help or "") for parameter in parameters)
    if command.epilog:
        yield ".PP"
        yield _roff(" ".join(command.epilog.split()))


def _usage(parameter: Any) -> str:
    """Return an operand in the form of a usage line."""
    name = _parameter_name(parameter)
    return f"{name}{'...' if parameter.nargs != 1 else ''}" if parameter.required else f"[{name}]"


def _parameter_name(parameter: Any) -> str:
    """Return the names of an option with its value, or that of an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    names = " / ".join(", ".join(flags) for flags in (parameter.opts, parameter.secondary_opts) if flags)
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or '|'.join(_choices(parameter)) or 'VALUE'}"


def _choices(parameter: Any) -> list[str]:
    """Return the values of an option that has a choice; different versions of typer keep them in different
    attributes."""
    described = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    choices = [*described] if isinstance(described, EnumType) else getattr(parameter, "type", None)
    found = choices if isinstance(choices, list) else getattr(choices, "choices", ())
    return [str(getattr(choice, "value", choice)) for choice in found]


def _entries(records: Any) -> Iterator[str]:
    for name, text in records:
        yield ".TP"
        yield f"\\fB{_roff(' '.join(name.split()))}\\fR"
        yield _roff(" ".join(text.split()))


def _roff(text: str) -> str:
    """Return a text with all roff commands escaped."""
    escaped = re.sub(r"\\", r"\\e", text).replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    sys.stdout.write(manual_page())
