"""Commit order: an mbarrier ends after the wait for a later commit of the same thread.

Hardware: The arrivals of commits come in their order; PTX promises only that what was issued before each is over.
"""

from pathlib import Path

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["ends_after_the_second_commit"]
kernel[1, 64]()
