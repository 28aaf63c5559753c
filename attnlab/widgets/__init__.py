"""The course's widgets: alive in Jupyter and, from their saved state, on the static pages of the book."""

from attnlab.widgets.alignment_viewer import AlignmentViewer
from attnlab.widgets.attention_heatmap import AttentionHeatmap
from attnlab.widgets.attention_stepper import AttentionStepper
from attnlab.widgets.block_stepper import BlockStepper
from attnlab.widgets.block_switches import BlockSwitches
from attnlab.widgets.cache_calculator import CacheCalculator
from attnlab.widgets.collapse_viewer import CollapseViewer
from attnlab.widgets.curve_guess import CurveGuess
from attnlab.widgets.decode_stepper import DecodeStepper
from attnlab.widgets.dot_product import DotProductExplorer
from attnlab.widgets.draw_curve import DrawCurve
from attnlab.widgets.generation_loop import GenerationLoop
from attnlab.widgets.head_forming import HeadForming
from attnlab.widgets.head_groups import HeadGroups
from attnlab.widgets.head_split import HeadSplit
from attnlab.widgets.head_viewer import HeadViewer
from attnlab.widgets.head_wall import HeadWall
from attnlab.widgets.live_model import LiveModel
from attnlab.widgets.living_picture import LivingPicture
from attnlab.widgets.mask_painter import MaskPainter
from attnlab.widgets.rotation_explorer import RotationExplorer
from attnlab.widgets.sampling_explorer import SamplingExplorer
from attnlab.widgets.sinusoid_explorer import SinusoidExplorer
from attnlab.widgets.softmax import SoftmaxExplorer
from attnlab.widgets.softmax_overflow import SoftmaxOverflow
from attnlab.widgets.state_table import StateTable
from attnlab.widgets.stream_stepper import StreamStepper
from attnlab.widgets.tile_stepper import TileStepper
from attnlab.widgets.word_shuffler import WordShuffler

__all__ = [
    "AlignmentViewer",
    "AttentionHeatmap",
    "AttentionStepper",
    "BlockStepper",
    "BlockSwitches",
    "CacheCalculator",
    "CollapseViewer",
    "CurveGuess",
    "DecodeStepper",
    "DotProductExplorer",
    "DrawCurve",
    "GenerationLoop",
    "HeadForming",
    "HeadGroups",
    "HeadSplit",
    "HeadViewer",
    "HeadWall",
    "LiveModel",
    "LivingPicture",
    "MaskPainter",
    "RotationExplorer",
    "SamplingExplorer",
    "SinusoidExplorer",
    "SoftmaxExplorer",
    "SoftmaxOverflow",
    "StateTable",
    "StreamStepper",
    "TileStepper",
    "WordShuffler",
]
