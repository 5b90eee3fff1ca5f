"""How these pages become a site: `sphinx-build -W -b html docs build/docs`, with the extra `docs` installed."""

from __future__ import annotations

import os
import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Generic, Keyword, Name, String, Text
from sphinx.util.docutils import SphinxDirective

import wsemu
from wsemu import cuda
from wsemu.language.markers import KernelFunction, KernelValue, Namespace

if TYPE_CHECKING:
    from types import ModuleType

    from sphinx.application import Sphinx

project = "wsemu"
version = release = wsemu.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["programs", "extra", "try"]
html_theme = "furo"
html_title = f"wsemu {release}"
html_favicon = "static/logo.svg"
html_static_path = ["static"]
html_css_files = ["wsemu.css"]
html_extra_path = ["extra"]  # JSON schemas
html_theme_options = {
    "source_repository": "https://github.com/wsemu/wsemu/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "light_css_variables": {
        "color-brand-primary": "#1f4e79",
        "color-brand-content": "#0a58ad",
        "wsemu-error": "#b3261e",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8fbce6",
        "color-brand-content": "#79b8ff",
        "wsemu-error": "#ff7b72",
    },
    "footer_icons": [{"name": "GitHub", "url": "https://github.com/wsemu/wsemu", "html": "GitHub", "class": ""}],
}
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True  # of a transcript its commands; a block without prompts as a whole
html_copy_source = False
html_show_copyright = False
pygments_style = "default"  # the contrast of all its colors is 4.5 and more
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


class Terminal(RegexLexer):
    """What `wsemu` prints, in the colours of a terminal."""

    name, aliases = "wsemu", ["wsemu"]
    tokens = {
        "root": [
            (r"^(\$ )(.*\n)", bygroups(Generic.Prompt, Name.Function)),
            (r"^(error\[[\w-]+\]|error|unsupported)(:.*\n)", bygroups(Generic.Error, Generic.Strong)),
            (r"^(warning\[[\w-]+\]|warning)(:.*\n)", bygroups(Keyword, Generic.Strong)),
            (r"^( *)(-->)( .*\n)", bygroups(Text, Name.Attribute, Text)),
            (r"^( *\d* \|)( *)(\^+.*\n)", bygroups(Name.Attribute, Text, Generic.Error)),
            (r"^( *\d* \|)( *)(-{2,}.*\n)", bygroups(Name.Attribute, Text, Name.Attribute)),
            (r"^( *\d* \|)(.*\n)", bygroups(Name.Attribute, Text)),
            (r"^(\.\.\.|\[\.\.\.\])\n", Comment),
            (r"^( *= )(note|help|schedule|holds in)(:)", bygroups(Name.Attribute, Generic.Strong, Text)),
            (r"\b(verified)\b", String),
            (r"\b(failed)\b", Generic.Error),
            (r"\b(incomplete)\b", Keyword),
            (r"\w+|[^\w\n]+?|\n", Text),
        ]
    }  # fmt: skip


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


def add_try_page(app: Sphinx, error: Exception | None) -> None:
    """Build the page to try wsemu beside the others; WSEMU_PYODIDE_URL names another Pyodide than the public one."""
    if error is None and app.builder.format == "html":
        build = runpy.run_path(str(Path(__file__).parent / "try" / "build.py"))
        build["build"](Path(app.outdir) / "try", os.environ.get("WSEMU_PYODIDE_URL") or build["PYODIDE"])


def setup(app: Sphinx) -> None:
    app.add_directive("kernel-names", KernelNames)
    app.add_lexer("text", Terminal)  # transcripts are most of what is text
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("build-finished", add_try_page)
