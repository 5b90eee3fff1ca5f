"""The `wsemu` command.  `wsemu --help` is answered here: the commands take longer to load.

Exit codes: 0 verified, 1 an error was found (or the program itself failed), 2 wrong usage or a kernel that does not
compile, 3 incomplete, 4 an error of wsemu itself, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys

GARBAGE = 20_000
"""allocations between two garbage collections: the objects of a command stay alive, and collections would take a fifth
of its time"""


def main() -> None:
    """Run the `wsemu` command: every error ends with a message and an exit code."""
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    if sys.stdout is None or sys.stderr is None:  # closed when the process started
        nowhere = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    try:
        _command()
    except KeyboardInterrupt:
        sys.exit(_report_interrupt())
    except Exception as error:
        code = _report_unexpected_error(error)
        _drop_output()
        sys.exit(code)
    finally:
        _forget_interrupt()


def _command() -> None:
    if sys.argv[1:] in (["--help"], ["-h"]):
        from wsemu.app.front_page import page

        sys.stdout.write(page())
        sys.stdout.flush()
        return
    if _is_plain(sys.argv[1:]):
        sys.exit(_check(*sys.argv[1:]))
    from wsemu.app.command_line import app

    gc.freeze()
    app(prog_name="wsemu")


def _is_plain(words: list[str]) -> bool:
    """Return whether a program is checked without any option, so that the parser of options need not be imported."""
    completes = "_WSEMU_COMPLETE" in os.environ or sys.platform == "win32"  # on Windows, this process has to expand `*`
    return (
        len(words) > 1
        and words[1] != ""
        and words[0] in ("check", "run")
        and not completes
        and "-" not in {w[:1] for w in words}
        and not any(w.endswith(".py") for w in words[2:])  # a second program causes a note
    )


def _check(name: str, file: str, *arguments: str) -> int:
    from pathlib import Path

    from wsemu.app import commands, program  # noqa: F401 - loaded before the next line

    gc.freeze()  # these objects live until the process ends, so collections can skip them
    try:
        return commands.check(Path(file), arguments, {}, {}, quiet=name == "run")
    except BrokenPipeError:
        _drop_output()
        return 1


def _forget_interrupt() -> None:
    """Make Python forget an interrupt that was handled.

    An interrupt that leaves `exec` or `eval` of a text sets a flag, and with it `python -m` ends by SIGINT whatever its
    exit code is.  The next text that is executed resets it.
    """
    exec("")


def _report_interrupt() -> int:
    """Report an interrupt of a command that does not report it itself, for example while it is imported."""
    with contextlib.suppress(Exception):
        print("interrupted", file=sys.stderr)
    _drop_output()
    return 130


def _report_unexpected_error(error: Exception) -> int:
    """Report an error, even if a program has changed Python itself."""
    try:
        from wsemu.app import commands

        return commands.report_unexpected_error(error)
    except Exception:
        os.write(2, b"internal error: nothing works any more: did the program change Python itself?\n")
        return 4


def _drop_output() -> None:
    """Discard output that cannot be written: otherwise, Python tries again when it exits."""
    try:
        sys.stdout.flush()
    except Exception:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
