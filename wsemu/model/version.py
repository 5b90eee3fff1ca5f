"""The version of this package, and where it is at home."""

__version__ = "0.1.0"
DOCS = "https://wsemu.github.io/wsemu/"
