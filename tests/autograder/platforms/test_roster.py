"""Finding a student on the class list."""

import collections

import pytest

from autograder.platforms import roster
from autograder.platforms.names import Owner

STUDENTS = [
    roster.Student("ada", "Lovelace, Ada", numbers={"canvas": "1", "github": "ada-l"}),
    roster.Student("li1", "Wei Li", numbers={"canvas": "", "github": ""}),
    roster.Student("li2", "Li Wei", numbers={"canvas": "", "github": ""}),
    roster.Student("zoe", "Zoë Zed", numbers={"canvas": "", "github": ""}),
]


def find(platform, label, number="", claims=1):
    listed = roster.Roster(roster.OWN, [], STUDENTS)
    return listed.find(platform, Owner(label, number), collections.Counter({roster.letters(label): claims})).id


def test_the_number_decides_then_a_name_that_only_one_has():
    assert find("canvas", "anything", "1") == "ada"
    assert find("canvas", "zedzoë", "9") == "zoe"
    assert find("clones", "Ada-L") == find("folder", "ADA") == find("folder", "Ada Lovelace") == "ada"


@pytest.mark.parametrize(
    "platform, label, number, claims, words",
    [
        ("canvas", "liwei", "9", 1, "the roster needs canvas_id"),
        ("canvas", "zedzoë", "9", 2, "the roster needs canvas_id"),
        ("canvas", "lovelaceada", "9", 1, "number 9"),  # ada has another number
        ("folder", "Wei Li", "", 1, "more than once on the roster"),
        ("clones", "nobody", "", 1, "not on the roster"),
        ("folder", "", "", 1, "not on the roster"),
    ],
)
def test_an_unclear_student_is_not_guessed(platform, label, number, claims, words):
    with pytest.raises(roster.NotFound, match=words):
        find(platform, label, number, claims)
