"""Exit codes of commands; 0 means verified."""

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130
NO_LAUNCH, EACH = 5, "WSEMU_EACH"
"""exit code of `wsemu check` for a program that launches no kernel, and the environment variable, set by
`wsemu.app.each`, without which the code is `USAGE` instead"""

WORST = (0, NO_LAUNCH, INCOMPLETE, FAILED, USAGE, INTERNAL, INTERRUPTED)
"""exit codes in ascending severity: of several runs, the most severe code is returned"""


def rank(code: int) -> int:
    """Return the severity of an exit code; another exit code of a program is as severe as `FAILED`."""
    return WORST.index(code if code in WORST else FAILED)
