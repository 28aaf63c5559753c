"""Tokens that collapse: their points and cosines are PyTorch's, and the switch moves from one tower to the other."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab.widgets import CollapseViewer
from attnlab.widgets.collapse_viewer import _example
from tests.attnlab.widget_page import state_of

EXAMPLES = [(CollapseViewer(), dict(floor=3), dict(add=True), dict(floor=6))]
ROOM = (-8, 8)
STILL = [".cv-plane", ".cv-side svg"]
PLAYS = [(CollapseViewer(floor=3), dict(floor=6))]
GLIDES = [(CollapseViewer(), dict(floor=6), {".cv-dot": "transform"})]
STOPS = ["add", "floor", "play"]
SET = [dict(floor=2, add=True)]
TOWER = np.random.default_rng(1).normal(size=(3, 4, 5))
REFUSED = [
    (TOWER, TOWER[:2], {}, r"same shape .*\(3, 4, 5\) and \(2, 4, 5\)"),
    (TOWER[0], TOWER[0], {}, "same shape"),
    (TOWER[:, :1], TOWER[:, :1], {}, "2 to 12 tokens on 1 to 48 floors; 1 on 2"),
    (TOWER[:1], TOWER[:1], {}, "4 on 0"),
    (TOWER, TOWER, dict(floor=3), "floor must be 0 to 2; it is 3"),
]
REFUSED_LATER = [("floor", 7, "floor must be 0 to 6; it is 7")]
FIXTURES = [state_of(CollapseViewer(floor=floor)) | dict(add=add) for floor in (0, 4, 6) for add in (False, True)]


def reference(state):
    own = state_of(CollapseViewer())["points"] == state["points"]  # of others the page has only the points
    alike = cosine(_example()[state["add"]][state["floor"]]) if own else state["alike"][state["add"]][state["floor"]]
    now = np.array(state["points"][state["add"]][state["floor"]])
    apart = np.linalg.norm(now[:, None] - now[None], axis=-1).max()
    return {"alike": alike, "apart": apart, "now": now}


def cosine(vectors):
    """The mean cosine of two different vectors."""
    vectors = torch.tensor(np.array(vectors))
    cosines, n = F.cosine_similarity(vectors[:, None], vectors[None], dim=-1), len(vectors)
    return np.round(((cosines.sum() - n) / n / (n - 1)).item(), 5)


def test_points_are_directions_seen_in_a_plane():
    widget, towers = CollapseViewer(), _example()
    for points, tower in zip(widget.points, towers):
        units = F.normalize(torch.tensor(np.array(tower)), dim=-1).numpy()
        seen = np.linalg.norm(np.array(points), axis=-1)
        assert (seen <= 1 + 1e-4).all()
        apart = np.linalg.norm(units[:, :, None] - units[:, None], axis=-1)
        flat = np.array(points)
        assert (np.linalg.norm(flat[:, :, None] - flat[:, None], axis=-1) <= apart + 1e-3).all()


SLIDERS = [(CollapseViewer(), "floor", range(7))]
CONTROLS = {
    "without the sum all tokens end as one point": (
        CollapseViewer(floor=6),
        {"#alike": pytest.approx(1, abs=0.01), "said~": "one point"},
        ("add", {"add": True, "said~": "different points", ".cv-formula": "x ← x + attention(x)"}),
        {"=> Number(document.querySelector('[data-value=alike]').textContent) < 0.9": True},
    ),
}


def test_print_gets_both_towers_and_both_curves():
    without, added, curve = CollapseViewer().picture().axes
    assert (without.get_title(), added.get_title(), len(curve.lines)) == ("without +", "with +", 2)
