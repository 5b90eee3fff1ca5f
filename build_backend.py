"""The build backend: setuptools, with the packages that compile the VM for a wheel."""

from __future__ import annotations

from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what setuptools needs, and the compiler: an editable installation compiles later."""
    found: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    return [*found, "llvmlite>=0.44", "numpy>=2.0", "platformdirs>=4.0"]
