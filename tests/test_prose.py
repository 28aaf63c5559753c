"""Habits of prose that a pattern can see, in every text that a user can see; the style sheet is in CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

UNITS = (
    r"(?:degrees?|numbers?|bytes?|bits?|points?|seconds?|minutes?|megabytes?|kilobytes?|\d ?[KM]B|steps?|lines?|cells?|"
    r"products?|additions?|multiply-adds|positions?|maps?|files?|rows?|columns?)"
)
BRITISH = (
    r"neighbour|colour|favourite|behaviour|honour|optimis|normalis|recognis|quantis|penalis|generalis|initialis|"
    r"visualis|organis|summaris|regularis|sanitis|realis(?!t)|emphasis(?:e|ing)|analys(?:e[ds]?|ing)\b|centre|modelling|"
    r"labelled|cancelled(?!E)|travell|grey\b|whilst|learnt\b|licence\b"
)

# Each habit: what to write instead, and the pattern.
HABITS = {
    "`one` for people: write we, you, or the imperative": (
        r"(?:^|[.,;:(] |\b(?:that|if|when|because|what|how|where|as|but|so|than) )[Oo]ne "
        r"(?:can|cannot|must|has to|needs to|takes|says|speaks|looks for|divides|could|should|wants)\b"
    ),
    '"is no X": write "is not a X"': (
        r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|doubt\b|use\b|\w+er\b)[a-z]"
    ),
    '"a" for a rate: write "per"': (
        rf"\b{UNITS} an? (?:token|step|line|layer|head|row|position|cell|second|student|submission|chapter|"
        r"exercise|block|group|notebook|query)\b"
    ),
    '"8 %": write "8%"': r"(?m)^(?!.*(?:code|print\(|%%)).*\d %(?=[\s.,;:)|])",
    "British spelling: this course is written in American English": rf"(?i)\b(?:un|re|de)?(?:{BRITISH})",
    "nobody, somebody, everybody: name who or what is meant": r"(?i)\b(?:nobody|somebody|everybody)\b",
    "stands, lies: write is, are": (
        r"\b(?:stands?|lies?) (?:beside|under|above|below|there|at the|in the (?!way)|in a|in its|on the|first|last)\b"
    ),
    "who or what without a noun: write readers who, the side that": (
        r"\bfor who\b|(?:^|[.:] )Who (?:asks|has|hands?|handed|wants|reads|writes|gets|skips)\b(?![^.]*\?)"
    ),
    "an idiom of another language": (
        r"\b(?:in so many words|as good as (?:zero|none|nothing|never|all)|next to nothing|the same by machine|"
        r"is to be had|are to be had|many a |brings? home|in the place of|goes on without a word|"
        r"wants? `|what is meant is|meant is|for itself|the other way round)\b"
    ),
    "a chapter that is counted: give its name, with a link": (
        r"\bthe (?:last|next|previous|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh) "
        r"chapter\b"
    ),
}
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        "chapters/*.md",
        "guides/*.md",
        "appendices/*.md",
        "attnlab/**/*.py",
        "autograder/**/*.py",
        "course/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.name != "CONTRIBUTING.md"  # its table of habits has an example of each
) + sorted([*ROOT.glob("solutions/*.py"), *ROOT.glob("attnlab/widgets/*.js"), *ROOT.glob("book/**/*.py")])


def occurrences(pattern: str, text: str) -> list[tuple[int, str]]:
    """The lines of a text, with their numbers, at which a habit is found."""
    found = {text.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, text)}
    lines = text.split("\n")
    return [(number, lines[number - 1].strip()) for number in sorted(found)]


@pytest.mark.parametrize("habit", HABITS)
def test_no_text_has_this_habit(habit):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in TEXTS
        for number, line in occurrences(HABITS[habit], path.read_text("utf-8"))
    ]
    assert not found, f"{habit}\n" + "\n".join(found)


EXAMPLES = [
    "One can write it as a sum.",
    "The rows are no tokens.",
    "It turns 30 degrees a token.",
    "It is 8 % of all.",
    "Each looks at its neighbour.",
    "Nobody reads it.",
    "The notebook lies beside this one.",
    "This is for who does not see it.",
    "Its share is next to nothing.",
    "As in the last chapter, we divide.",
]
PLAIN = [
    "The first one can be left out. Each one has a name.",
    "There is no kernel, and it is no longer needed.",
    "It takes a token and gives a row.",
    "It is 8% of all.",
    "Each looks at its neighbor.",
    "The score lies between 0 and 1; it can stand in for the other.",
    "Who wrote this?",
    "Earlier chapters are cited by name.",
]


@pytest.mark.parametrize("habit, example", list(zip(HABITS, EXAMPLES, strict=True)))
def test_a_pattern_sees_its_habit(habit, example):
    assert occurrences(HABITS[habit], example)


@pytest.mark.parametrize("example", PLAIN)
def test_plain_words_are_left_alone(example):
    assert [habit for habit, pattern in HABITS.items() if occurrences(pattern, example)] == []
