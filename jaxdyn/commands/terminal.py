"""`terminal` prepares the process for a command: text that any terminal can show, and an orderly end on SIGTERM."""

import codecs
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

#: replacements of characters that have no decomposition into ASCII
SIGNS = {"µ": "u", "μ": "u", "‖": "|", "τ": "tau", "−": "-", "–": "-", "—": "-", "…": "...", "’": "'"}


class Terminated(KeyboardInterrupt):
    """Raised in the main thread when the process receives SIGTERM."""


def plain(text: str) -> str:
    """Return text in ASCII: the nearest letters, and a question mark for characters without any."""
    found = "".join(SIGNS.get(c, c) for c in text)
    bare = "".join(c for c in unicodedata.normalize("NFKD", found) if not unicodedata.combining(c))
    return bare.encode("ascii", "replace").decode()


def _nearest(error: UnicodeError):
    assert isinstance(error, UnicodeEncodeError)
    return plain(error.object[error.start : error.end]), error.end


@contextmanager
def terminal() -> Iterator[None]:
    """Within the block, write text that the terminal cannot show in ASCII, and raise `Terminated` on SIGTERM."""
    codecs.register_error("jaxdyn", _nearest)
    streams = [s for s in (sys.stdout, sys.stderr) if hasattr(s, "reconfigure")]
    before = [s.errors for s in streams]
    handler = None
    try:
        for stream in streams:
            stream.reconfigure(errors="jaxdyn")
        if threading.current_thread() is threading.main_thread():
            handler = signal.signal(signal.SIGTERM, _terminate)
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
            if not stream.closed:
                stream.reconfigure(errors=errors)
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _terminate(number, frame):
    raise Terminated
