"""The groups of options in `wsemu COMMAND --help` and in the manual page, in their order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUPS = {
    "What to check": (
        "only skip fail_on allow_incomplete baseline strict every corners kernel launch_skip launch_count kind sample "
        "size most launch cta thread break_ first module program"
    ),
    "Launch of a kernel (.cu, .ptx)": "entry grid block arg dynamic_shared cluster set link nvcc out like",
    "Target": (
        "arch sms clc ranks heap managed pageable lockstep fma mma engine numba_ptx device registers what_if times "
        "stalls"
    ),
    "Effort": (
        "effort budget time_limit fix_budget tier tries examples seconds launches ulps force jobs on no_run fresh "
        "results seed batch"
    ),
    "Output": (
        "format limit all statistics fix write watch save_witness certificate save_launches source_root output json "
        "dap progress"
    ),
}
"""title -> names of the parameters"""
ARGUMENTS, OTHERS = "Arguments", "Other options"
_GROUP_OF = {name: title for title, names in GROUPS.items() for name in names.split()}


def group_parameters(parameters: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the arguments and options of a command by group: the arguments first, `--help` last."""
    found: dict[str, list[Any]] = {title: [] for title in (ARGUMENTS, *GROUPS, OTHERS)}
    for parameter in parameters:
        is_argument = parameter.param_type_name == "argument"
        found[ARGUMENTS if is_argument else _GROUP_OF.get(parameter.name, OTHERS)].append(parameter)
    return {title: group for title, group in found.items() if group}


def suggestion(message: str, candidates: Iterable[str]) -> str:
    """Return a message about a name that does not exist, with the closest of the candidates, if one is close."""
    import difflib

    match = re.search(r"[Nn]o such (?:option|command):? '?([^\s']+)'?", message)
    if match is None:
        return message
    near = difflib.get_close_matches(match[1], [*candidates], 1, 0.6)
    return f"{match[0]}, did you mean `{near[0]}`?" if near else f"{match[0]}"
