"""Names of files in reports: a cell of a notebook by its number, not by the file that represents it."""

from __future__ import annotations

import os
import sys


def cell(file: str) -> str | None:
    """`cell In[3]` for the source of a cell of the running IPython; None for a file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    try:
        named = shell.compile.format_code_name(file)
    except AttributeError:  # an IPython that does not number its cells
        return None
    return f"cell {named[1]}" if named else None


def short(file: str) -> str:
    """A file without its folders, or a cell."""
    return cell(file) or os.path.basename(file)
