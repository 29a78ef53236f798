"""Networks as functions of one flat weight vector."""

from uraenas.networks.layout import Entry, Layout
from uraenas.networks.stack import Stack, statistics_layout, weight_layout
from uraenas.networks.supernet import Supernet, supernet_layout

__all__ = ["Entry", "Layout", "Stack", "Supernet", "statistics_layout", "supernet_layout", "weight_layout"]
