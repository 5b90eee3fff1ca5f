"""How these pages become a site: `sphinx-build -W -b html docs build/docs`, with the extra `docs` installed."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import wsemu
from wsemu import cuda
from wsemu.language.markers import KernelFunction, KernelValue, Namespace

if TYPE_CHECKING:
    from types import ModuleType

    from sphinx.application import Sphinx

project = "wsemu"
version = release = wsemu.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["programs"]
html_theme = "furo"
html_title = f"wsemu {release}"
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
highlight_language = "text"
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
autodoc_default_options = {"exclude-members": "model_config, model_post_init"}

LISTED_ELSEWHERE = ("cg", "fp16", "libdevice", "types")
"""groups of names that are too many for a table, or no names for kernels"""


class KernelNames(SphinxDirective):
    """`{kernel-names} wsemu.ptx`: a table of what kernels may call from a module, made from the names themselves."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows = list(named(import_module(self.arguments[0])))
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (45, 55)), cols=2)
        group += nodes.tbody("", *(self.row(*row) for row in rows))
        return [nodes.table("", group, classes=["names"])]

    def row(self, signature: str, text: str) -> nodes.row:
        prose: list[nodes.Node] = []
        for n, part in enumerate(text.split("`")):
            prose.append(nodes.literal(part, part) if n % 2 else nodes.Text(part))
        cells = [nodes.literal(signature, signature)], prose
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))


def named(module: ModuleType | Namespace) -> list[tuple[str, str]]:
    """(signature, what it does) of the kernel functions and values of `wsemu.cuda` or `wsemu.ptx`, or of a group."""
    found = []
    for name in dir(module):
        value = getattr(module, name)
        if isinstance(value, KernelFunction) and name not in cuda.VECTORS:
            found.append((value.signature, str(value.__doc__).partition("\n\n")[2]))
        elif isinstance(value, KernelValue):
            found.append((value.name, str(value.__doc__)))
        elif isinstance(value, Namespace) and name not in LISTED_ELSEWHERE:
            found += named(value)
    return found


def as_restructured_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: what is indented is code."""
    text = re.sub(r"(?m)(?<=\n)\n(?=    \S)", "\n.. code-block:: text\n\n", "\n".join(lines))
    lines[:] = text.split("\n")


def setup(app: Sphinx) -> None:
    app.add_directive("kernel-names", KernelNames)
    app.connect("autodoc-process-docstring", as_restructured_text)
