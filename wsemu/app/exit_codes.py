"""Exit codes of commands; 0: verified."""

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130

WORST = (0, INCOMPLETE, FAILED, USAGE, INTERNAL, INTERRUPTED)
"""exit codes in ascending severity: the result of several runs is the last one here"""

NO_LAUNCH, EACH = 5, "WSEMU_EACH"
"""exit code of `wsemu check` for `python -m wsemu.app.each` if a program launches no kernel, and the environment variable
that requests it; otherwise that is wrong usage"""
