"""The runner of guides notices every mistake in a guide."""

import pytest

from tests.guides import runner

GOOD = """\
# A guide

```sh
cd .. && mkdir -p there && cd there
export WORD=hello
```

```{code-block} text
:caption: names.txt
ada
boris
```

```{code-block} diff
:caption: names.txt
 ada
+adele
 boris
```

```sh
echo $WORD; cat names.txt
```

```text
hello
...
boris
```

% fails
```sh
cat nothing.txt
```

```python
x = 20
print(x)
```

```python
print(x + 1)
```

```text
21
```

% until: ready
```sh
echo getting ready; sleep 60
```

% not run: it would cost a fortune
```sh
exit 7
```
"""


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """`follow(text)`: follow a guide with that text in an empty folder."""

    def run(text):
        (tmp_path / "g.md").write_text(text)
        (tmp_path / "here").mkdir(exist_ok=True)
        monkeypatch.setattr(runner, "GUIDES", tmp_path)
        runner.Session(tmp_path / "here", tmp_path / "scratch").follow(runner.blocks("g"))

    return run


def test_a_guide_that_is_right_in_everything_is_followed_to_its_end(follow, tmp_path):
    follow(GOOD)
    assert (tmp_path / "there" / "names.txt").read_text() == "ada\nadele\nboris\n"


@pytest.mark.parametrize(
    "right, wrong, words",
    [
        ("...\nboris\n", "boris\n", "not in the output"),  # a line between is left out without a word
        ("21\n", "20\n", "not in the output"),
        ("% fails\n", "", "ended with 1"),
        ("% fails\n", "% fails\n\n", "ended with 1"),  # a mark must be on the line before its block
        ("cat nothing.txt", "cat names.txt", "ended with 0"),
        ("+adele\n boris", "+adele\n chiara", "0 times"),
        ("```python\nx", "```ruby\nx", "what is to be done"),
        ("% not run: it would cost a fortune\n", "% not run\n", "followed by words"),
        ("% not run: it", "% never: it", "no mark is called"),
        ("echo getting ready; sleep 60", "echo getting there", "did not come"),
    ],
)
def test_a_mistake_in_a_guide_is_reported_with_its_line(follow, right, wrong, words):
    assert GOOD.count(right) == 1
    with pytest.raises(AssertionError, match=words) as told:
        follow(GOOD.replace(right, wrong))
    assert "guides/g.md:" in str(told.value)


@pytest.mark.parametrize("guide", ["students", "instructors", "authors"])
def test_few_blocks_of_the_guides_are_not_run_and_each_says_why(guide):
    blocks = runner.blocks(guide)
    left_out = [block for block in blocks if block.mark == "not run"]
    assert len(left_out) <= 3 and all(len(block.words) > 20 for block in left_out)
    assert sum(block.kind == "sh" for block in blocks) > 3 * len(left_out)


def test_every_guide_has_a_test():
    tested = {path.stem.removeprefix("test_") for path in (runner.ROOT / "tests" / "guides").glob("test_*.py")}
    assert {path.stem for path in runner.GUIDES.glob("*.md")} == tested - {"runner"}
