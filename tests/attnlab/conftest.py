"""Fixtures of the widgets' tests."""

from __future__ import annotations

import pytest

from tests.attnlab.widget_page import load_widget


@pytest.fixture
def shown(watched):
    """`shown(widget)` draws it and returns its `View`; no console error, no outside request."""
    opened = []

    def draw(widget, **page):
        opened.append(load_widget(watched, widget, **{"reduced_motion": "reduce", **page}))
        return opened[-1]

    yield draw
    for view in opened:
        view.seen.assert_clean()
