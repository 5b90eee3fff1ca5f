"""Exit codes of commands; 0: verified."""

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130
