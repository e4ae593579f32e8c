"""Object code on disk, so that the next process need not compile: a folder with one file for each program.

The folder is JAXDYN_CACHE_DIR (empty: no cache), or else `jaxdyn` in the system's folder of caches. Its content is run
as code, so a folder that others may write to is not used. A damaged entry is ignored; errors of the disk cost a
compilation, but never change a result.
"""

import hashlib
import logging
import os
import re
import stat
import struct
import sys
import tempfile
import time
from pathlib import Path

#: first bytes of every entry; the number counts changes of the format
_MAGIC = b"jaxdyn object code 1\n"
_SUFFIX = ".objects"
_TEMPORARY = ".writing-"
#: most bytes of all entries, unless JAXDYN_CACHE_BYTES is set
_BYTES = 1 << 30
#: seconds after which an unfinished entry counts as left by a process that died
_ABANDONED = 3600

#: a process fills one `_PARTS`-th of the remaining space before it measures again, since others fill it too
_PARTS = 8

#: by folder and most bytes of all entries, how many bytes this process may write before it measures
_left: dict[tuple[Path, int], int] = {}
_log = logging.getLogger(__name__)
_told: set[str] = set()


def get(key: str) -> list[bytes] | None:
    """Return the objects that `put` stored, or None if there are none or they are damaged."""
    path = _path(key)
    if path is None:
        return None
    try:
        content = _read(path)
    except OSError:
        return None
    objects = _unpack(content, key)
    try:
        if objects is None:
            path.unlink()  # only this user can write to the folder, so the entry is ours
        else:
            os.utime(path)  # the least recently used entries are removed first
    except OSError:
        pass
    return objects


def put(key: str, objects: list[bytes]) -> bool:
    """Store objects, and return whether they are on disk now. Raises ValueError if JAXDYN_CACHE_BYTES is not a
    number."""
    most = _limit()
    content = _pack(objects, key)
    path = _path(key, make=True) if len(content) <= most else None
    if path is None:
        return False
    name = None
    try:
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)  # readable for this user only
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)  # other processes see the whole entry or none
    except OSError:
        if name is not None:
            _remove(Path(name))
        return False
    place = path.parent, most
    # measuring takes long: there may be thousands of entries. Threads that write at once may exceed the limit by an
    # entry
    left = _left.get(place, 0) - len(content)
    _left[place] = left if left >= 0 else _shrink(path.parent, path.name, most)
    return True


def folder() -> Path | None:
    """Return the folder of entries, whether or not it exists, or None if there is no cache."""
    asked = os.environ.get("JAXDYN_CACHE_DIR")
    if asked is not None:
        return Path(asked).expanduser().absolute() if asked else None
    general = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(general):
        return Path(general, "jaxdyn")
    if os.name == "nt":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local, "jaxdyn", "cache") if local else None
    home = os.path.expanduser("~")
    if not os.path.isdir(home):  # do not create a home folder
        return None
    return Path(home, "Library/Caches" if sys.platform == "darwin" else ".cache", "jaxdyn")


def _limit() -> int:
    asked = os.environ.get("JAXDYN_CACHE_BYTES") or str(_BYTES)  # empty is not set
    if not asked.strip().isdigit():
        raise ValueError(f"JAXDYN_CACHE_BYTES={asked} is no number of bytes; unset it for {_BYTES}")
    return int(asked)


def _path(key: str, make: bool = False) -> Path | None:
    """Return the file of an entry, or None if there is no folder that is safe to use."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", key):
        raise ValueError(f"{key!r} is no key")
    try:
        where = folder()
        if where is None:
            return None
        if make:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _problem(where)
    except (OSError, RuntimeError):  # no such folder, no home
        return None
    if problem and str(where) not in _told:
        _told.add(str(where))
        _log.warning("%s %s: compiled programs are not kept. %s", where, *problem)
    return None if problem else where / (key + _SUFFIX)


def _problem(where: Path) -> tuple[str, str] | None:
    """Return why others could put code into the folder, and how to fix that, or None if they cannot."""
    if os.name != "posix":
        return None
    for found in (os.lstat(where), os.stat(where)):  # a link, and its target
        if found.st_uid != os.geteuid():
            return "belongs to another user", "Set JAXDYN_CACHE_DIR to a folder of your own."
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o022:
            return "can be written to by others", f"Run: chmod go-w {where}"
    return None


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or (os.name == "posix" and found.st_uid != os.geteuid()):
            raise OSError("no file of ours")
        return file.read()


def _pack(objects: list[bytes], key: str) -> bytes:
    name = key.encode()
    sizes = [len(name), *map(len, objects)]
    body = struct.pack(f"<{len(sizes) + 1}Q", len(objects), *sizes) + name + b"".join(objects)
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(content: bytes, key: str) -> list[bytes] | None:
    """Return the objects of an entry, or None if it is damaged, of another format, or has another key."""
    start = len(_MAGIC) + 32
    body = content[start:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) : start]:
        return None
    try:
        (count,) = struct.unpack_from("<Q", body)
        sizes = struct.unpack_from(f"<{count + 1}Q", body, 8)
    except struct.error:
        return None
    at, parts = 8 * (count + 2), []
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return parts[1:] if parts[0] == key.encode() else None


def _shrink(where: Path, newest: str, most: int) -> int:
    """Remove the least recently used entries until the rest is small enough, and return how many bytes may be written
    before the next call. Other processes may do the same at the same time."""
    entries, total = [], 0
    try:
        with os.scandir(where) as found:
            for entry in found:
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.name.endswith(_SUFFIX):
                    total += about.st_size
                    entries.append((entry.name == newest, about.st_mtime_ns, about.st_size, entry.name))
                elif entry.name.startswith(_TEMPORARY) and about.st_mtime < time.time() - _ABANDONED:
                    _remove(where / entry.name)
    except OSError:
        return 0
    for _, _, size, name in sorted(entries):
        if total <= most:
            break
        _remove(where / name)
        total -= size
    return (most - total) // _PARTS


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass
