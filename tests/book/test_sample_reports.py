"""A card shows what the check says to a common mistake, in the check's own words."""

import pytest

import attnlab
from attnlab.check import material_of
from attnlab.checking.report import as_html
from book.chapter_pages import sample_reports
from course import catalog
from course.kit.hunt import without_hunts

LAST = [[*without_hunts(catalog.exercises_of(stem))][-1] for stem in catalog.chapters() if catalog.exercises_of(stem)]


@pytest.mark.parametrize("name", LAST)
def test_the_report_names_a_mistake_and_grants_what_is_right(name):
    material = material_of(name)
    said = sample_reports.sample(name, {material["section"]: "here"})
    sentences = [mistake["text"].split(".")[0].split("`")[0][:30] for mistake in material["misconceptions"]]
    assert any(sentence in said for sentence in sentences)
    assert '<li class="no">' in said and '<li class="ok">' in said and 'role="status"' not in said


def test_the_report_is_the_one_that_an_answer_with_this_mistake_gets(capsys):
    def hard_alignment(weights):  # each head votes
        import torch

        votes = torch.nn.functional.one_hot(weights.argmax(-1), weights.shape[-1])
        return votes.sum(dim=1).argmax(-1)

    material = material_of("hard_alignment")
    expected = sample_reports.report_on(material, material["misconceptions"][0])
    assert as_html(attnlab.check(hard_alignment).report) == as_html(expected)
