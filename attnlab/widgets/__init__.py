"""The course's widgets: alive in Jupyter and, from their saved state, on the static pages of the book."""

from attnlab.widgets.alignment_viewer import AlignmentViewer
from attnlab.widgets.attention_heatmap import AttentionHeatmap
from attnlab.widgets.attention_stepper import AttentionStepper
from attnlab.widgets.block_stepper import BlockStepper
from attnlab.widgets.cache_calculator import CacheCalculator
from attnlab.widgets.decode_stepper import DecodeStepper
from attnlab.widgets.dot_product import DotProductExplorer
from attnlab.widgets.head_viewer import HeadViewer
from attnlab.widgets.mask_painter import MaskPainter
from attnlab.widgets.rotation_explorer import RotationExplorer
from attnlab.widgets.sampling_explorer import SamplingExplorer
from attnlab.widgets.sinusoid_explorer import SinusoidExplorer
from attnlab.widgets.softmax import SoftmaxExplorer
from attnlab.widgets.tile_stepper import TileStepper

__all__ = [
    "AlignmentViewer",
    "AttentionHeatmap",
    "AttentionStepper",
    "BlockStepper",
    "CacheCalculator",
    "DecodeStepper",
    "DotProductExplorer",
    "HeadViewer",
    "MaskPainter",
    "RotationExplorer",
    "SamplingExplorer",
    "SinusoidExplorer",
    "SoftmaxExplorer",
    "TileStepper",
]
