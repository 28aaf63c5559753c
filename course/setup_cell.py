"""The first code cell of every notebook: it installs `attnlab` if it is missing, and does nothing otherwise.

The wheel is taken from the notebook's folder, or from the site that `_config.yml` names under `html: baseurl:`. If
there is neither, the cell says in a sentence what to fetch.
"""

from __future__ import annotations

import tomllib

import yaml

from course.folder import ROOT

FOLDER = "notebooks"  # of the site, with the notebooks and the wheel
ID = "setup"
_CELL = """\
# Installs attnlab, the package of this course, where it is missing.
try:
    import attnlab
except ModuleNotFoundError:
    import importlib, pathlib, subprocess, sys

    wheel = next(pathlib.Path().glob("attnlab-*.whl"), "{address}")
    if not wheel:
        raise ModuleNotFoundError(
            "put {wheel}, which comes with the notebooks, in this folder, and run this cell again"
        ) from None
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    importlib.invalidate_caches()"""
_TORCH = """
try:
    import torch
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "this chapter needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    ) from None"""


def source(needs_torch: bool, site: str | None = None) -> str:
    """The cell's text.

    needs_torch: whether the notebook imports PyTorch, which is too large to be installed unasked
    site: the address of the published book; the one in `_config.yml` if None
    """
    site = published_at() if site is None else site
    address = f"{site.rstrip('/')}/{FOLDER}/{wheel_name()}" if site else ""
    return _CELL.format(address=address, wheel=wheel_name()) + (_TORCH if needs_torch else "")


def published_at() -> str:
    """The address of the published book, or an empty string."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    return (config.get("html") or {}).get("baseurl") or ""


def wheel_name() -> str:
    """The file name of the wheel of `attnlab`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return f"{project['name']}-{project['version']}-py3-none-any.whl"
