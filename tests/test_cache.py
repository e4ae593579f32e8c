"""Object code on disk: kept, private, whole or not at all, and never the cause of an error."""

import errno
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxdyn.engine import cache

OBJECTS = [b"first object", b"", b"\0" * 1000]
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache of the test's own."""
    monkeypatch.setenv("JAXDYN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAXDYN_CACHE_BYTES", raising=False)
    return tmp_path / "cache"


def entry(folder: Path, key: str = "key") -> Path:
    return folder / f"{key}.objects"


def test_what_is_put_is_got(folder):
    assert cache.get("key") is None
    assert not folder.exists()  # asking makes none
    assert cache.put("key", OBJECTS)
    assert cache.get("key") == OBJECTS
    assert cache.get("other") is None
    assert cache.put("key", [b"new"])
    assert cache.get("key") == [b"new"]
    assert cache.put("none", []) and cache.get("none") == []


@posix
def test_folder_and_files_are_private(folder):
    cache.put("key", OBJECTS)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [p.stat().st_mode & 0o777 for p in folder.iterdir()] == [0o600]


def test_keys_cannot_leave_the_folder():
    for key in ("", "../key", "a/b", "key.objects", "a\0b"):
        with pytest.raises(ValueError, match="no key"):
            cache.put(key, OBJECTS)


def test_where_the_folder_is(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXDYN_CACHE_DIR", "")
    assert cache.folder() is None
    assert cache.put("key", OBJECTS) is False and cache.get("key") is None
    monkeypatch.delenv("JAXDYN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "jaxdyn"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    if os.name == "posix":
        assert cache.folder() == tmp_path / ".cache" / "jaxdyn"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert cache.folder() == tmp_path / "Library" / "Caches" / "jaxdyn"


@posix
def test_a_home_that_does_not_exist_is_not_made(monkeypatch, tmp_path):
    monkeypatch.delenv("JAXDYN_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert cache.put("key", OBJECTS) is False and cache.get("key") is None
    assert not (tmp_path / "nobody").exists()


@pytest.mark.parametrize("damage", ["empty", "short", "bit", "longer", "magic", "version", "foreign", "other key"])
def test_damaged_entries_are_ignored_and_removed(folder, damage):
    cache.put("key", OBJECTS)
    cache.put("longer_key", OBJECTS)
    path = entry(folder)
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[-1] ^= 1
    path.write_bytes(
        {
            "empty": b"",
            "short": content[:-100],
            "longer": content + b"x",
            "magic": b"J" + content[1:],
            "version": content.replace(b"code 1", b"code 2", 1),
            "foreign": b"\x80\x04cos\nsystem\n(S'false'\ntR.",
            "other key": entry(folder, "longer_key").read_bytes(),
        }.get(damage, content)
    )
    assert cache.get("key") is None
    assert not path.exists()
    assert cache.put("key", OBJECTS) and cache.get("key") == OBJECTS


@posix
def test_an_entry_that_is_a_link_is_not_followed(folder, tmp_path):
    cache.put("key", OBJECTS)
    entry(folder).rename(tmp_path / "elsewhere")
    entry(folder).symlink_to(tmp_path / "elsewhere")
    assert cache.get("key") is None
    assert (tmp_path / "elsewhere").exists()


@posix
@pytest.mark.parametrize("case", ["group", "world", "link", "owner"])
def test_a_folder_that_others_can_write_to_is_refused_with_one_warning(folder, case, monkeypatch, tmp_path, caplog):
    cache.put("key", OBJECTS)
    if case == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    elif case == "link":
        folder.chmod(0o777)
        link = tmp_path / "link"
        link.symlink_to(folder)
        monkeypatch.setenv("JAXDYN_CACHE_DIR", str(link))
    else:
        folder.chmod(0o770 if case == "group" else 0o707)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert cache.get("key") is None
            assert cache.put("key", OBJECTS) is False
    assert len(caplog.records) == 1
    assert "not kept" in caplog.text and ("chmod" in caplog.text or "JAXDYN_CACHE_DIR" in caplog.text)
    assert not [p for p in folder.iterdir() if p.name != "key.objects"]


@posix
def test_a_folder_that_others_can_only_read_is_used(folder):
    folder.mkdir(mode=0o755)
    assert cache.put("key", OBJECTS) and cache.get("key") == OBJECTS


def test_least_recently_used_entries_go(folder, monkeypatch):
    for k in range(5):
        cache.put(f"key{k}", [bytes(1000)])
        os.utime(entry(folder, f"key{k}"), (1000 + k, 1000 + k))
    cache.get("key0")  # used: now the newest
    size = entry(folder, "key0").stat().st_size
    monkeypatch.setenv("JAXDYN_CACHE_BYTES", str(3 * size + 10))
    assert cache.put("newest", [bytes(999)])
    assert sorted(p.name for p in folder.iterdir()) == ["key0.objects", "key4.objects", "newest.objects"]
    assert cache.put("large", [bytes(4000)]) is False  # would empty the cache and not fit
    assert cache.get("key0") is not None
    monkeypatch.setenv("JAXDYN_CACHE_BYTES", "many")
    with pytest.raises(ValueError, match="JAXDYN_CACHE_BYTES=many"):
        cache.put("key", OBJECTS)


def test_what_a_dead_process_left_is_removed_and_what_others_write_is_not(folder):
    cache.put("key", OBJECTS)
    (folder / ".writing-old").write_bytes(b"x")
    (folder / ".writing-new").write_bytes(b"x")
    (folder / "notes.txt").write_bytes(b"x")
    os.utime(folder / ".writing-old", (time.time() - 7200,) * 2)
    cache._left.clear()  # another process
    cache.put("key", OBJECTS)
    assert sorted(p.name for p in folder.iterdir()) == [".writing-new", "key.objects", "notes.txt"]


def test_the_folder_is_looked_through_only_before_it_may_be_full(folder, monkeypatch):
    seen = []
    look = os.scandir
    monkeypatch.setattr(os, "scandir", lambda where: seen.append(where) or look(where))
    monkeypatch.setenv("JAXDYN_CACHE_BYTES", "100000")
    for k in range(200):
        assert cache.put(f"key{k}", [bytes(1000)])
        assert sum(p.stat().st_size for p in Path(folder).iterdir()) <= 100000
    monkeypatch.setenv("JAXDYN_CACHE_BYTES", "100000000")
    before = len(seen)
    for k in range(50):
        assert cache.put(f"other{k}", [bytes(1000)])
    assert len(seen) == before + 1


def no_space(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["mkdir", "mkstemp", "replace", "write", "utime", "scandir", "unlink"])
def test_disk_errors_lose_nothing(folder, call, monkeypatch):
    """Full, read-only or broken: every call that touches the disk fails once."""
    if call == "write":

        class Full:
            def __init__(self, handle, mode):
                os.close(handle)

            def __enter__(self):
                return self

            __exit__ = write = no_space

        monkeypatch.setattr(os, "fdopen", Full)
    elif call == "mkstemp":
        monkeypatch.setattr(cache.tempfile, "mkstemp", no_space)
    elif call in ("mkdir", "unlink"):
        monkeypatch.setattr(Path, call, no_space)
    else:
        monkeypatch.setattr(os, call, no_space)
    stored = cache.put("key", OBJECTS)
    assert stored is (call in ("utime", "scandir", "unlink"))
    assert cache.get("key") == (OBJECTS if stored else None)
    assert stored or not folder.exists() or not list(folder.iterdir())


def test_a_file_in_place_of_the_folder(folder):
    folder.write_bytes(b"no folder")
    assert cache.put("key", OBJECTS) is False and cache.get("key") is None
    assert folder.read_bytes() == b"no folder"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk(folder, monkeypatch):
    """The system's own error, when the data are written."""
    monkeypatch.setattr(cache.tempfile, "mkstemp", lambda **kw: (os.open("/dev/full", os.O_WRONLY), str(folder / "no")))
    assert cache.put("key", OBJECTS) is False and cache.get("key") is None


FILL = """
import random, sys
from jaxdyn.engine import cache
seed = int(sys.argv[1])
draw = random.Random(seed)
content = lambda k: [bytes([k]) * (500 + 10 * k), b"end"]
got = 0
for _ in range(400):
    k = draw.randrange(40)
    found = cache.get(f"key{k}")
    assert found is None or found == content(k), k
    got += found is not None
    assert cache.put(f"key{k}", content(k))
print(got)
"""


def test_two_processes_fill_the_cache_at_once(folder):
    """It holds half of what they store, so that both remove entries all the time."""
    environment = {**os.environ, "JAXDYN_CACHE_BYTES": "15000"}
    running = [
        subprocess.Popen([sys.executable, "-c", FILL, str(k)], env=environment, stdout=subprocess.PIPE, text=True)
        for k in range(2)
    ]
    outputs = [p.communicate(timeout=60)[0] for p in running]
    assert [p.returncode for p in running] == [0, 0]
    assert all(int(out) > 50 for out in outputs)
    assert 5000 < sum(p.stat().st_size for p in folder.iterdir()) <= 15000
    assert all(p.suffix == ".objects" for p in folder.iterdir())
