"""Messages of editors on two streams, which the debug adapter and the language server share.

A message is JSON after a header with its length (Language Server Protocol 3.17 and Debug Adapter Protocol, "Base
Protocol"; the two definitions are equal).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import BinaryIO

LARGEST = 256 << 20
"""maximum bytes of a message"""


class Transport:
    """Reads and writes messages; several threads may write."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self._lock = threading.Lock()

    def read(self) -> bytes | None:
        """Return the next message as data; None at the end of the stream, and for a message that is too large."""
        size = 0
        while line := self.incoming.readline():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                with contextlib.suppress(ValueError):
                    size = max(int(value), 0)
            if not line.strip():
                if size > LARGEST:
                    print(f"wsemu: an editor sends a message of {size:,} bytes: at most {LARGEST:,}", file=sys.stderr)
                    return None
                return self.incoming.read(size)
        return None

    def write(self, data: bytes) -> None:
        """Write the JSON of a message."""
        with self._lock:
            self.outgoing.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            self.outgoing.flush()

    def close(self) -> None:
        """Close the outgoing stream."""
        with contextlib.suppress(OSError):
            self.outgoing.close()


def standard_transport() -> Transport:
    """Return a transport on standard input and output; everything else written to standard output goes to standard
    error."""
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    incoming = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    return Transport(incoming, outgoing)
