"""Exit codes of commands; 0: verified."""

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130

WORST = (0, INCOMPLETE, FAILED, USAGE, INTERNAL, INTERRUPTED)
"""exit codes in ascending severity: the result of several runs is the last one here"""
