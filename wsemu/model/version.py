"""The version of this package, and the address of its home page."""

__version__ = "0.1.0"
DOCS = "https://wsemu.github.io/wsemu/"
