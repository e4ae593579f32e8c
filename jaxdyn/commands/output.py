"""Writes files under a temporary name and renames them, so that a file is complete or absent."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np


def check_writable(path: str | os.PathLike) -> Path:
    """Return the path, or raise `ValueError` if no file can be written there. Call it before long work."""
    path = Path(path)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"cannot write {str(path)!r}: there is no folder {str(path.parent)!r}.")
    if path.is_dir():
        raise ValueError(f"cannot write {str(path)!r}: it is a folder.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write {str(path)!r}: its folder does not let you.")
    return path


@contextmanager
def complete(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block raises nothing."""
    path = check_writable(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.absolute().parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files that only their owner reads
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_arrays(path: str | os.PathLike, arrays: Mapping[str, object]) -> None:
    """Write named arrays to a compressed `.npz`."""
    with complete(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{k: np.asarray(v) for k, v in arrays.items()})


def save_plot(path: str | os.PathLike, draw) -> None:
    """Write a picture. `draw(pyplot)` returns the figure. Raise `ImportError` without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'jaxdyn[examples]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with complete(path) as temporary:
        figure = draw(pyplot)
        figure.savefig(temporary, dpi=120)
        pyplot.close(figure)
