"""Functions that write files under a temporary name and rename them, so that a file is complete or absent."""

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np


def check_writable(path: str | os.PathLike) -> Path:
    """Return the path of the file with links resolved. Raise `ValueError` if no file can be written there. Call this
    before long work."""
    given, path = str(path), Path(os.path.realpath(path))
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {given!r}: there is no folder {str(Path(given).parent)!r}.")
    if path.is_dir():
        raise ValueError(f"cannot write {given!r}: it is a folder.")
    if path.exists() and not path.is_file():
        raise ValueError(f"cannot write {given!r}: it is no file but a pipe, a device or the like.")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"cannot write {given!r}: it does not let you.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write {given!r}: its folder does not let you.")
    return path


def check_arrays(path: str | os.PathLike) -> None:
    """Raise `ValueError` if the name of a file of arrays ends as those of other kinds of files do."""
    if Path(path).suffix.lower() not in ("", ".npz"):
        raise ValueError(f"cannot write {str(path)!r}: arrays are written as `.npz`, and its name ends with another.")


def check_picture(path: str | os.PathLike) -> None:
    """Raise `ValueError` if no picture can be written there, and `ImportError` without matplotlib."""
    check_writable(path)
    figure = _pyplot().figure()
    kinds = figure.canvas.get_supported_filetypes()
    _pyplot().close(figure)
    if Path(path).suffix[1:].lower() not in kinds:
        raise ValueError(f"cannot write {str(path)!r}: its name ends with none of .{', .'.join(sorted(kinds))}.")


def check_apart(*paths: str | os.PathLike | None) -> None:
    """Raise `ValueError` if two outputs are the same file. None stands for no output."""
    seen: dict[str, str | os.PathLike] = {}
    for path in filter(None, paths):
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(f"cannot write {str(seen[real])!r} and {str(path)!r}: they are one file; name two.")
        seen[real] = path


@contextmanager
def complete(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`, and rename it to `path` if the block raises nothing.

    An existing file keeps its mode, and a link remains a link.
    """
    path = check_writable(path)
    handle, name = tempfile.mkstemp(prefix=".jaxdyn-", suffix=path.suffix[:8], dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(path))  # mkstemp creates files that only their owner can read
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Return the mode of a file, or that of a new file if it does not exist."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def save_arrays(path: str | os.PathLike, arrays: Mapping[str, object]) -> None:
    """Write named arrays to a compressed `.npz`."""
    with complete(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{k: np.asarray(v) for k, v in arrays.items()})


def save_plot(path: str | os.PathLike, draw) -> None:
    """Write a picture. `draw(pyplot)` returns the figure. Raise `ImportError` without matplotlib."""
    pyplot = _pyplot()
    with complete(path) as temporary:
        figure = draw(pyplot)
        figure.savefig(temporary, dpi=120)
        pyplot.close(figure)


def _pyplot():
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'jaxdyn[examples]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
