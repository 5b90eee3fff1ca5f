"""Selection of the launches of a program that are checked: `--launch-skip` and `--launch-count`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass

if TYPE_CHECKING:
    from wsemu.app.chosen import Chosen


class Selection(NamedTuple):
    """The launches of a program that are checked."""

    skip: int = 0
    """number of launches that first run unchecked"""
    most: int = 0
    """number of launches that are checked after those; 0: all"""
    save: str = ""
    """folder into which each selected launch is saved, with its memory; empty: none"""

    @classmethod
    def of(cls, chosen: Chosen) -> Selection:
        """Return the selection of the command line and the configuration."""
        return cls(chosen.launch_skip, chosen.launch_count, chosen.save_launches)


EVERY = Selection()


@dataclass(slots=True)
class Selector:
    """Counts launches, and admits the selected ones."""

    selection: Selection
    seen: int = 0
    unchecked: int = 0

    def __call__(self, kernel: str) -> bool:
        """Return whether the launch that is about to run is checked."""
        del kernel
        self.seen += 1
        first, most = self.selection.skip, self.selection.most
        if self.seen > first and (not most or self.seen <= first + most):
            return True
        self.unchecked += 1
        return False
