"""An ensemble behind HTTP: a page to drop images on, a JSON API, the Open Inference Protocol, health and metrics."""

from uraenas.deploy.serving.limits import Limits

__all__ = ["Limits"]
