"""Exit codes of commands; 0: verified."""

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130
NO_LAUNCH, EACH = 5, "WSEMU_EACH"
"""exit code of `wsemu check` if a program launches no kernel, only with the environment variable that `wsemu.app.each`
sets; it is `USAGE` otherwise"""

WORST = (0, NO_LAUNCH, INCOMPLETE, FAILED, USAGE, INTERNAL, INTERRUPTED)
"""exit codes in ascending severity: of several runs, the most severe code is returned"""
