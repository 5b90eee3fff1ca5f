"""Edits of a kernel that are tried: which of them make the launch verified."""
