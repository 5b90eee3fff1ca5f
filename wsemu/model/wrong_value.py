"""Translate Pydantic's errors about a user's value into wsemu's words."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic_core import ErrorDetails

_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer that is not so large",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "string_too_short": "a string that is not empty",
}
"""allowed values, by type of error"""


def expected_text(error: ErrorDetails) -> str:
    """Return the values that are allowed instead of an invalid one."""
    type_, about = error["type"], error.get("ctx", {})
    if type_ == "literal_error":
        return f"one of {about['expected']}" if " or " in about["expected"] else about["expected"]
    if type_ == "greater_than_equal":
        return f"{about['ge']:g} or more"
    if type_ == "greater_than":
        return f"more than {about['gt']:g}"
    if type_ == "less_than_equal":
        return f"{about['le']:g} or less"
    if type_ == "less_than":
        return f"less than {about['lt']:,}"
    if type_ == "too_short":
        return f"{about['min_length']} or more"
    if type_ == "too_long":
        return f"{about['max_length']} or fewer"
    return _WANTED.get(type_, error["msg"])


def error_text(error: ErrorDetails, keys: Collection[str]) -> str:
    """Return the text for an error in a JSON file whose object has these keys, to follow the file's name: the path to
    the value, the value, and the allowed values."""
    type_, path = error["type"], error["loc"]
    if type_ == "json_invalid":
        return f" is not JSON: {error['ctx']['error']}"
    if not path:
        return f" has {_short(error['input'])} where an object belongs: its keys are {', '.join(keys)}"
    key = str(path[-1])
    if type_ == "value_error":  # an error of wsemu, which names the allowed values
        return f": {_place(path)} is {_short(error['input'])}: {error['ctx']['error']}"
    if len(path) > 1 and type_ in ("extra_forbidden", "missing"):
        what = "is too short" if isinstance(path[-1], int) else "lacks" if type_ == "missing" else "has no key"
        return f": {_place(path[:-1])} {what}{f' `{key}`' if isinstance(path[-1], str) else ''}"
    if type_ == "extra_forbidden":
        near = difflib.get_close_matches(key, keys, 1, 0.5)
        remedy = f"did you mean `{near[0]}`?" if near else f"the keys are {', '.join(keys)}"
        return f" has no key `{key}`: {remedy}"
    if type_ == "missing":
        return f" lacks `{key}`: its keys are {', '.join(keys)}"
    if type_ in ("too_short", "too_long"):
        count = error["ctx"]["actual_length"]
        return f": {_place(path)} has {count} item{'s' * (count != 1)}: give {expected_text(error)}"
    return f": {_place(path)} is {_short(error['input'])}: give {expected_text(error)}"


def _place(path: tuple[int | str, ...]) -> str:
    """Return the path to a value, such as `grid[0]` or `set.scale`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return f"`{''.join(parts).lstrip('.')}`"


def _short(value: Any) -> str:
    """Return a value as JSON, on one line."""
    if isinstance(value, (dict, list, tuple)):
        return "an object" if isinstance(value, dict) else "a list"
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else repr(value).replace("'", '"')
    return text if len(text) <= 60 else f"{text[:57]}..."
