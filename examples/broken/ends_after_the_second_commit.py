"""Commit order: an mbarrier is invalidated after a wait for a later commit of the same thread.

Hardware: Commits arrive in order; PTX promises only that each arrives after the operations issued before it.
"""

from pathlib import Path

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["ends_after_the_second_commit"]
kernel[1, 64]()
