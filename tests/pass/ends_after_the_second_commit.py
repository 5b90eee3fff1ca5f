"""The fix of `ends_after_the_second_commit`: a wait for each commit comes before its mbarrier ends."""

from pathlib import Path

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["ends_after_the_second_commit"]
kernel[1, 64]()
