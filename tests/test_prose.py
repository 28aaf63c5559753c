"""Habits of prose that a pattern can see; the style sheet is in CONTRIBUTING.md.

They are looked for in every text that a user can see, in comments and docstrings, and in the names of tests.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    "tests that succeed: write tests that pass": r"\btests? succeeds?\b",
    "an inverted sentence: put the subject first": r"(?:^|[.:] )(?:New are|So are|So would)\b(?![^.]*\?)",
    '"so far there were": write so far there have been': r"\b[Ss]o far there (?:was|were)\b",
    "a chapter that is counted: give its name, with a link": (
        r"\bthe (?:last|next|previous|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh) "
        r"chapter\b"
    ),
}

# Habits of texts that students and instructors read.
HABITS_OF_PAGES = {
    "on paper, which means in theory: write by hand": r"\b[Oo]n paper\b",
    '"from X on": write which come later, or beginning with X': (
        r"\b[Ff]rom (?:(?:position|layer) \w+|which \w+|the (?:first|second|third|fifth|\w+th)(?: \w+)?|"
        r"\d[\d,]*(?: \w+)?|this chapter) on\b"
    ),
}

# Habits of comments and docstrings. In other texts these words may be right.
HABITS_OF_REMARKS = {
    "a beginning without a noun: write what the function returns or does, or name the thing": (
        r'(?m)^(?:r?"""|// )(?:What|Of|Who)\b(?!.*\?)'
    ),
    '"is none": write that there is none, or "is not a"': r"(?<!there )(?<!There )\b(?:is|are|was|were) none\b",
    "anew: write again": r"\banew\b",
    '"as it is" for unchanged: write unchanged': (
        r"\b(?:leaves?|left|stays?|stayed|remains?|kept|keeps?|passed|passes|returns?|returned|comes?|came)"
        r"(?: \w+){0,2} as (?:it is|it was|they are|they were)(?=[.,:;)]|$| and )"
    ),
}

# Habits of the names of tests.
HABITS_OF_NAMES = {
    "who, nobody, somebody in a name: name who or what is meant": (
        r"\btest_(?:\w+_)?(?:who|(?:nobody|somebody|everybody)s?)(?:_|\b)"
    ),
    '"is no X" in a name: write is not a X': (
        r"\btest_\w+(?<!_there)_(?:is|are|was|were)_(?:none\b|none_|no_(?!longer|more|less|fewer|doubt))"
    ),
    "stands, lies in a name: write is, are": (
        r"\btest_\w+_(?:stands?(?!_(?:in|out|still)(?:_|\b))|lies?(?!_between))(?:_|\b)"
    ),
    "more than 85 characters in a name: say less": r"\btest_\w{81,}",
}
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        "chapters/*.md",
        "guides/*.md",
        "appendices/*.md",
        "play/*.md",
        "attnlab/**/*.py",
        "autograder/**/*.py",
        "course/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path.name != "CONTRIBUTING.md"  # its table of habits has an example of each
) + sorted([*ROOT.glob("solutions/*.py"), *ROOT.glob("attnlab/widgets/*.js"), *ROOT.glob("book/**/*.py")])
PAGES = [path for path in TEXTS if path.suffix == ".md" or path.parent.name == "exercises"]
SOURCES = sorted(
    path
    for folder in ("attnlab", "autograder", "book", "course", "live", "scripts", "solutions", "tests")
    for ending in ("py", "js")
    for path in (ROOT / folder).glob(f"**/*.{ending}")
    if path != Path(__file__) and "autograder/demo/samples" not in path.as_posix()  # answers as students write them
)


def remarks(path: Path) -> str:
    """Return the comments and docstrings of a file, each on its own lines."""
    text = path.read_text("utf-8")
    if path.suffix == ".js":
        found = [
            (text.count("\n", 0, match.start()), match[0])
            for match in re.finditer(r"(?m)(?:^|(?<=\s))(?://.*$|/\*(?:[^*]|\*(?!/))*\*/)", text)
        ]
    else:
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = {
            node.body[0].lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        }
        found = [
            (token.start[0] - 1, token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT or token.type == tokenize.STRING and token.start[0] in docstrings
        ]
    lines = [""] * len(text.split("\n"))
    for number, remark in found:
        for offset, line in enumerate(remark.split("\n")):
            lines[number + offset] += line.strip()
    return "\n".join(lines)


def occurrences(pattern: str, text: str) -> list[tuple[int, str]]:
    """Return the lines of a text, with their numbers, at which a habit is found."""
    found = {text.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, text)}
    lines = text.split("\n")
    return [(number, lines[number - 1].strip()) for number in sorted(found)]


def assert_free_of(habit: str, pattern: str, texts: dict[Path, str]):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path, text in texts.items()
        for number, line in occurrences(pattern, text)
    ]
    assert not found, f"{habit}\n" + "\n".join(found)


@pytest.fixture(scope="module")
def all_remarks():
    return {path: remarks(path) for path in SOURCES}


@pytest.mark.parametrize("habit", HABITS)
def test_no_text_has_this_habit(habit):
    assert_free_of(habit, HABITS[habit], {path: path.read_text("utf-8") for path in TEXTS})


@pytest.mark.parametrize("habit", HABITS_OF_PAGES)
def test_no_page_has_this_habit(habit):
    assert_free_of(habit, HABITS_OF_PAGES[habit], {path: path.read_text("utf-8") for path in PAGES})


@pytest.mark.parametrize("habit", HABITS | HABITS_OF_REMARKS)
def test_no_comment_and_no_docstring_has_this_habit(habit, all_remarks):
    assert_free_of(habit, (HABITS | HABITS_OF_REMARKS)[habit], all_remarks)


@pytest.mark.parametrize("habit", HABITS_OF_NAMES)
def test_no_name_of_a_test_has_this_habit(habit):
    names = {
        path: "\n".join(re.findall(r"(?m)^ *(?:async )?def (test_\w+)", path.read_text("utf-8")))
        for path in SOURCES
        if path.suffix == ".py" and ROOT / "tests" in path.parents
    }
    assert_free_of(habit, HABITS_OF_NAMES[habit], names)


ALL_HABITS = HABITS | HABITS_OF_PAGES | HABITS_OF_REMARKS | HABITS_OF_NAMES
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
    "All tests succeed.",
    "New are two norms.",
    "So far there were as many queries as keys.",
    "As in the last chapter, we divide.",
    "On paper: 2 + 2 = 4.",
    "From the second layer on, keys differ.",
    '"""What is left of a text."""',
    "A name that is none of the list's.",
    "The grid is drawn anew.",
    "The text is left as it was.",
    "test_who_asks_gets_an_answer",
    "test_a_list_is_no_row",
    "test_the_name_stands_above",
    f"test_{'a_long_name_' * 8}",
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
    "From the weights on the diagonal we see it, and from then on too.",
    '"""Return what is left of a text."""',
    "# What is a row? There is none.",
    "The grid is drawn again, as it is read.",
    "test_readers_without_scripts",
    "test_a_closed_file_is_no_longer_read_where_there_is_no_kernel",
    "test_the_score_lies_between_0_and_1",
    "test_a_short_name",
]


@pytest.mark.parametrize("habit, example", list(zip(ALL_HABITS, EXAMPLES, strict=True)))
def test_a_pattern_sees_its_habit(habit, example):
    assert occurrences(ALL_HABITS[habit], example)


@pytest.mark.parametrize("example", PLAIN)
def test_plain_words_are_left_alone(example):
    assert [habit for habit, pattern in ALL_HABITS.items() if occurrences(pattern, example)] == []
