"""Functions that read model files and refuse anything that is not a regular file."""

import os
import stat
from pathlib import Path


def is_there(path: Path) -> bool:
    """Return True if the path exists. A text that cannot be a path gives False."""
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, a null byte, a surrogate
        return False


def check_regular(path: Path, told_by: str = "") -> None:
    """Raise `ValueError` unless the path is a regular file: reading a pipe or a device could hang or never end. Raise
    `FileNotFoundError` if it does not exist. `told_by` names the file that refers to this one."""
    call = f"`load`: {told_by}: " if told_by else "`load`: "
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{call}there is no file {_shown(path)}.") from None
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise ValueError(f"{call}{_shown(path)} cannot be read: {told}.") from None
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        what = kinds.get(stat.S_IFMT(mode), "a device")
        raise ValueError(f"{call}{_shown(path)} is {what}, not a file.")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raise `FileNotFoundError`, or `ValueError` if it is no regular file or not
    readable."""
    check_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"`load`: {_shown(path)} cannot be read: {error.strerror}.") from None


def _shown(path: Path) -> str:
    text = repr(str(path))
    return text if len(text) < 300 else text[:100] + "..." + text[-100:]
