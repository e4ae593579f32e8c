"""`terminal` prepares the process for a command: text that any terminal can show, and an orderly end on SIGINT and
SIGTERM. `leave` is that end; `tell` prints, and does not mind if nobody reads."""

import codecs
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tqdm import tqdm

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
    """Within the block, write text that the terminal cannot show in ASCII, raise `Terminated` on SIGTERM, and lose no
    signal. Output that was closed before the start goes nowhere."""
    codecs.register_error("jaxdyn", _nearest)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # stays open: threads may write later
    streams = [s for s in (sys.stdout, sys.stderr) if hasattr(s, "reconfigure")]
    before = [s.errors for s in streams]
    handler, hook = None, sys.unraisablehook
    try:
        for stream in streams:
            stream.reconfigure(errors="jaxdyn")
        if threading.current_thread() is threading.main_thread():
            handler = signal.signal(signal.SIGTERM, _terminate)
            sys.unraisablehook = lambda lost: None if _again(lost) else hook(lost)
        yield
    finally:
        sys.unraisablehook = hook
        for stream, errors in zip(streams, before, strict=True):
            if not stream.closed:
                _settle(stream)
                stream.reconfigure(errors=errors)
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def tell(text: object, stream=None) -> None:
    """Print a line, by default to stdout, beside progress bars. If the reader has gone, as `head` does, do nothing:
    work whose results are in files goes on."""
    try:
        tqdm.write(str(text), file=stream)
    except BrokenPipeError:
        _settle(stream or sys.stdout)


def _settle(stream) -> None:
    """Write what a stream holds, or send it and all that follows nowhere, since it would raise an error at exit."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _terminate(number, frame):
    raise Terminated


def _again(lost) -> bool:
    """Return whether an exception that Python drops is that of a signal, which then comes again, a little later.

    Python drops what is raised in a callback of its garbage collection. JAX has such a callback, in which signals end
    up that arrive during a collection.
    """
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        return False
    number = signal.SIGTERM if issubclass(lost.exc_type, Terminated) else signal.SIGINT
    send = (lambda n: os.kill(os.getpid(), n)) if os.name == "posix" else signal.raise_signal  # to the main thread
    threading.Timer(0.01, send, (number,)).start()
    return True


def leave(code: int) -> None:
    """End the process at once. Without this, threads of XLA that still compile may crash while it cleans up."""
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    os._exit(code)
