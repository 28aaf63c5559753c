"""Long lines of code are elements, so that a phone can wrap and hang them."""

import re

from book.pages import wrap_code

CODE = """<div class="highlight-ipython3 notranslate"><div class="highlight"><pre><span></span>a = 1
    <span class="n">total</span> = <span class="s2">&quot;a line that is longer than a phone is wide&quot;</span>

<span class="n">b</span> = 2
</pre></div></div>"""


def test_a_long_line_hangs_at_its_indent_and_nothing_is_lost():
    hung = wrap_code.hang(CODE)
    (line,) = re.findall(r'<span class="code-line" style="--indent:4">(.*?\n)</span>', hung, re.DOTALL)
    assert "total" in line and line.count("\n") == 1
    assert re.sub(r"<[^>]*>", "", hung) == re.sub(r"<[^>]*>", "", CODE)


def test_outputs_keep_their_columns():
    for kind in ("output stream highlight-myst-ansi", "highlight-text"):
        block = CODE.replace("highlight-ipython3", kind)
        assert wrap_code.hang(block) == block
