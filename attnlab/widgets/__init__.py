"""The course's widgets: alive in Jupyter and, from their saved state, on the static pages of the book."""

from attnlab.widgets.attention_heatmap import AttentionHeatmap
from attnlab.widgets.attention_stepper import AttentionStepper
from attnlab.widgets.dot_product import DotProductExplorer
from attnlab.widgets.softmax import SoftmaxExplorer

__all__ = ["AttentionHeatmap", "AttentionStepper", "DotProductExplorer", "SoftmaxExplorer"]
