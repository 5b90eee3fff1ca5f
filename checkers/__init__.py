"""Checks of a launch: one file per property."""

if __name__ != "wsemu.checkers":
    raise ImportError("`checkers` is a source folder, not a package: import `wsemu.checkers`")
