"""Names of files in reports.  A cell of a notebook is named by its number instead of the file that represents it."""

from __future__ import annotations

import os
import sys


def cell(file: str) -> str | None:
    """Return `cell In[3]` if a file is the source of a cell of the running IPython, otherwise None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    try:
        named = shell.compile.format_code_name(file)
    except AttributeError:  # some IPython versions do not number their cells
        return None
    return f"cell {named[1]}" if named else None


def short(file: str) -> str:
    """Return the name of a file without its folders, or of a cell."""
    return cell(file) or os.path.basename(file)
