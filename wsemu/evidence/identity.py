"""The identity of a finding across runs: it does not change when lines move, and distinguishes known findings from new
ones.

It is computed from the code, the kernel, and for each site the name of the file, the text and the array, without line
numbers and paths.  SARIF, GitLab reports, JSON reports and baselines use it.
"""

from __future__ import annotations

import linecache
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.model.finding import Finding, Site

_DIGITS = 32


def finding_fingerprint(kernel: str, finding: Finding) -> str:
    """Return the fingerprint of a finding in a launch of a kernel, as hexadecimal digits."""
    import hashlib

    parts = [finding.code, kernel]
    for site in finding.sites:
        parts += [os.path.basename(site.file), _site_text(site), site.array or ""]
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:_DIGITS]


def _site_text(site: Site) -> str:
    """Return the source text of a site, up to the end of its first line.  Columns count bytes."""
    source = linecache.getline(site.file, site.line).rstrip().encode(errors="replace")
    last = site.end_column - 1 if site.end_line == site.line else None
    return source[site.column - 1 : last].decode(errors="ignore")
