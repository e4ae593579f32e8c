"""Choices that environment variables make."""

import os


def chosen(name: str, choices: tuple[str, ...], default: str) -> str:
    """Return the choice of an environment variable, the default if it is not set or empty."""
    found = os.environ.get(name) or default  # empty is not set
    if found not in choices:
        raise ValueError(f"{name}={found} is none of {', '.join(choices)}; unset it for {default}")
    return found
