"""The page to drop images on: one page, and who predicts for it."""

from importlib import resources


def page(ask: str, head: str = "") -> str:
    """The page with this script, a path below `deploy/`, which says what an image shows and who predicts."""
    scripts = _file("web/resize.js") + _file(ask)
    return _file("serving/page.html").replace("/*ask*/", scripts).replace("<!--head-->", head)


def _file(name: str) -> str:
    return resources.files("uraenas.deploy").joinpath(name).read_text(encoding="utf-8")
