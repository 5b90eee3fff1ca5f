"""`python -m wsemu.app.each [OPTIONS] FILE...`: `wsemu check OPTIONS -- FILE` for each file, for hooks and CI.

A file may be a program, PTX, a launch file, a folder of these, or a pattern (`kernels/**/*.py`).  Options are those of
`wsemu check`, anywhere before `--`.  Programs that name no kernel (`cuda.jit`) and import nothing that launches through
CUDA's driver (Triton, torch with CUDA, CuPy, cuda.core ...) are skipped, with a note for each.  The modules that a
program imports from its own folder count as parts of it.  A program that launches no kernel, such as a module of
kernels, gets a note.  The exit code is the worst one: 4, 2, 1, 3, 0.  A pattern without a file, no file at all and no
launch in any file are wrong usage, 2: nothing was checked.

`--sarif FILE`         Write one SARIF file instead of text, with a run for each program.
`--junit FILE`         Write one file of JUnit's XML, with a suite for each program.
`--gitlab FILE`        Write one Code Quality report.  Of several such options, each checks all programs once.  With a
                       report, a line of text names each program that did not pass.
`--help`               Print this text.
`--allow-incomplete`   Count exit code 3 as 0.
`--allow-no-kernels`   Count files without any kernel or launch as 0, for a hook that gets the changed files.
"""

from __future__ import annotations

import errno
import glob
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app.exit_codes import EACH, INTERNAL, NO_LAUNCH, USAGE
from wsemu.app.program_file import has_kernels
from wsemu.model.errors import UsageError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator

WORST = (0, 3, 1, 2, 4)
"""exit codes, from the mildest to the worst"""
OUTCOMES = {1: "failed", 2: "wrong usage or set-up", 3: "incomplete", 4: "internal error"}
"""exit code of a program that did not pass -> its meaning"""
_SUFFIX = {"--sarif": ".sarif", "--junit": ".xml", "--gitlab": ".json"}
"""option for a report of all programs -> usual suffix of the file"""
_FLAGS, _VALUED = ("--allow-incomplete", "--allow-no-kernels"), (*_SUFFIX,)
"""options of this command, without a value and with one"""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the options and the files.  Words after `--` are files, and so is an earlier word that is neither an
    option nor the value of one."""
    at = words.index("--") if "--" in words else len(words)
    options, files, valued = list[str](), list[str](), _options_with_values()
    rest = iter(words[:at])
    for word in rest:
        if word.startswith("-"):
            options += [word, *([value] if word in valued and (value := next(rest, None)) is not None else ())]
        else:
            files.append(word)
    return options, files + words[at + 1 :]


def _options_with_values() -> frozenset[str]:
    """Return the options that take a value, of this command and of `wsemu check`."""
    from wsemu.app import command_line  # noqa: F401 - declares the commands
    from wsemu.app.declared import options_with_values

    return frozenset((*_VALUED, *options_with_values("check")))


def expand(word: str) -> list[str]:
    """Return the files that a word names: itself, or those that match it as a pattern; none if nothing does."""
    if Path(word).exists() or not glob.has_magic(word):
        return [word]
    return sorted(glob.glob(word, recursive=True))


def run(options: list[str], file: str, *, captured: bool) -> tuple[int, str]:
    """Return the exit code of `wsemu check`, and its output if that is `captured`."""
    command = [sys.executable, "-m", "wsemu.cli", "check", *options, "--", file]
    sys.stdout.flush()
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE if captured else None,
        encoding="utf-8",
        env={**os.environ, EACH: "1"},
    )
    return (done.returncode if done.returncode in (*WORST, NO_LAUNCH) else INTERNAL), done.stdout or ""


def main(words: list[str]) -> int:
    """Check each file; return the worst exit code."""
    options, names = split(words)
    if "--help" in options:
        Printer().text(__doc__ or "")
        return 0
    own = {flag: flag in options for flag in _FLAGS}
    given = ((option, _pop_option(options, option)) for option in _VALUED)
    outputs = {option: file for option, file in given if file is not None}
    options = [option for option in options if option not in _FLAGS]
    found = {name: expand(name) for name in names}
    files = [*dict.fromkeys(file for files in found.values() for file in files)]
    checked = [*filter(has_kernels, files)]
    for file in files:
        if file not in checked:
            Printer(sys.stderr).text(f"note: `{file}` is skipped: it names no kernel")
    codes = [*_mistakes(found, checked, allowed=own["--allow-no-kernels"])]
    if not all(is_output(file, files, option) for option, file in outputs.items()):
        return USAGE
    for option, output in (outputs or {"": ""}).items():
        try:
            counted = [
                (file, 0 if own["--allow-incomplete"] and code == 3 else code)
                for file, code in _check_files(checked, options, option.removeprefix("--"), output)
            ]
        except UsageError as error:
            Printer(sys.stderr).error(error)
            codes.append(USAGE)
            continue
        codes += _judge_launches(counted, output, allowed=own["--allow-no-kernels"])
        if output:
            _report_failures([(file, code) for file, code in counted if code != NO_LAUNCH], output)
    return max(codes, key=WORST.index, default=0)


def _check_files(files: list[str], options: list[str], format_: str, output: str) -> Iterator[tuple[str, int]]:
    """Check all files, and yield them with their exit codes; with a format the output of all goes to one file."""
    if not format_:
        yield from ((file, run(options, file, captured=False)[0]) for file in files)
        return
    from wsemu.app.merged_reports import MERGERS

    texts: list[tuple[str, str]] = []
    for file in files:
        code, text = run([*options, "--format", format_], file, captured=True)
        try:
            MERGERS[format_]([(file, text)])
            texts.append((file, text))
        # the output reports an internal error, it is not a document
        except (SyntaxError, ValueError, KeyError, TypeError):
            code = INTERNAL
        yield file, code
    try:
        Path(output).write_text(MERGERS[format_](texts), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{output}`: {error.strerror or error}") from None


def _judge_launches(counted: list[tuple[str, int]], output: str, *, allowed: bool) -> list[int]:
    """Return the exit codes of the programs.  Programs without launches are left out unless all programs are like that;
    with a report, their names are printed."""
    printer = Printer(sys.stderr)
    idle = [file for file, code in counted if code == NO_LAUNCH]
    for file in idle if output else ():
        printer.text(f"note: `{file}` launched no kernel: nothing was checked")
    if idle and len(idle) == len(counted) and not allowed:
        printer.text(
            "error: no file launches a kernel, so nothing was checked: name programs that do, or give "
            "`--allow-no-kernels`",
            "error",
        )
        return [USAGE]
    return [code for _, code in counted if code != NO_LAUNCH]


def _report_failures(counted: list[tuple[str, int]], output: str) -> None:
    """Print the programs that did not pass, and the file with their findings."""
    printer = Printer()
    failed = [(file, code) for file, code in counted if code]
    for file, code in failed:
        printer.text(f"{file}: {OUTCOMES[code]} (exit code {code})", "error")
    if failed:
        programs = "program" if len(counted) == 1 else "programs"
        printer.text(f"{len(failed)} of {len(counted)} {programs} did not pass: see `{output}`")


def _mistakes(found: dict[str, list[str]], checked: list[str], *, allowed: bool) -> Iterator[int]:
    """Report, on standard error, mistakes that leave nothing to check; yield their exit codes."""
    printer = Printer(sys.stderr)
    for name, files in found.items():
        if not files:
            printer.text(f"error: no file matches `{name}`", "error")
            yield USAGE
    if not found:
        printer.text("error: no file is given: name programs that launch kernels, or a pattern", "error")
        yield USAGE
    elif not checked and not allowed and all(found.values()):
        printer.text(
            "error: no file names a kernel, so nothing was checked: name programs that launch kernels, or give "
            "`--allow-no-kernels`",
            "error",
        )
        yield USAGE


def is_output(file: str, files: list[str], option: str = "--sarif") -> bool:
    """Return whether a report can be written to a file, and report if not: the name is empty, the file is an input, or
    its folder does not exist."""
    if file and file not in files and not file.endswith((".py", ".ptx", ".cu")):
        if not (reason := _not_writable(Path(file))):
            return True
        Printer(sys.stderr).text(f"error: cannot write `{file}`: {reason}", "error")
        return False
    what = f"`{file}` is an input" if file else f"option '{option}' requires an argument"
    Printer(sys.stderr).text(f"error: {what}: name a file to write, as in `{option} found{_SUFFIX[option]}`", "error")
    return False


def _not_writable(file: Path) -> str:
    """Return the reason why a file cannot be written; empty if it can."""
    if file.is_dir():
        return os.strerror(errno.EISDIR)
    if not file.parent.is_dir():
        return f"the folder `{file.parent}` does not exist"
    target = file if file.exists() else file.parent
    return "" if os.access(target, os.W_OK) else os.strerror(errno.EACCES)


def _pop_option(options: list[str], name: str) -> str | None:
    """Remove an option with its value, and return the value; None without the option."""
    for at, option in enumerate(options):
        if option == name:
            value = options[at + 1] if at + 1 < len(options) and not options[at + 1].startswith("-") else ""
            del options[at : at + 2]
            return value
        if option.startswith(f"{name}="):
            del options[at]
            return option.partition("=")[2]
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
