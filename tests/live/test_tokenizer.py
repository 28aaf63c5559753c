"""The tokenizer against Python's, on 2,000 strings."""

import random

from attnlab import smollm2

SEED = 42
AWKWARD = [
    *("", " ", "  ", "\n", " \n ", "a  b", "a   ", "   a", "\ta\r\n\tb", " " * 65, "\u2028\u2029"),
    *("1234567890", " 12 3", "x1y2 3z", "½ ² Ⅷ ٣ 五"),
    *("it's we'll I'VE", "''s 's'll '", "'''", "Mississippi's riverbanks", "don’t"),
    "naïve café, Ærøskøbing",
    "Straße und Übermut",
    "e\u0301 is two characters",
    "日本語のテキスト",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "👍🏽 👨‍👩‍👧‍👦 🇫🇷",
    *("a\u00a0b\u2003c\u3000d", "a\u0085b \ufeffc\u200bd", "\x00\x01\x7f\xad", "\U0010fffd \ue000"),
    "<|im_start|>user\n",
    "def f(x):\n    return x ** 2  # ok\n",
    "https://example.org/?a=1&b=%20",
    *("a" * 300, "!" * 99),
    *("A\u030a Å Å", "ﬁne ﬂow", "𝒳𝓎𝔷"),
]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz  ETAOIN.,'",
    " \t\n\r\u00a0\u2003a.1",
    "0123456789 .,-+x½²",
    "áéíóúñçßøåœ ÀÉÎÕÜ's",
    "абвгд жзий αβγδ שלום",
    "日本語中文 한국어。、",
    "👍🎉❤️\u200d🏽 ok!",
    "{}()[]<>=+-*/;:\"'_\\#\n  ifx",
    "".join(map(chr, range(1, 0x250))),
]
WORDS = "the of and to in is that it was for on are as with his they I at be this have from or had by hot but".split()


def strings() -> list[str]:
    """The awkward ones, and drawn ones: of one kind of character, of words, of anything."""
    draw = random.Random(SEED)
    found = list(AWKWARD)
    while len(found) < 2000:
        kind = draw.randrange(len(ALPHABETS) + 1)
        if kind == len(ALPHABETS):
            found.append(draw.choice(["", " "]) + " ".join(draw.choices(WORDS, k=draw.randrange(1, 20))))
        else:
            found.append("".join(draw.choices(ALPHABETS[kind], k=draw.randrange(1, 40))))
    return found


def test_text_becomes_the_ids_of_the_reference_and_comes_back(node, pieces):
    reference, texts = smollm2.tokenizer(), strings()
    ids = [reference.encode(text) for text in texts]
    found = node(
        """
        const tokenizer = new engine.Tokenizer(JSON.parse(readFileSync(given.file)));
        const ids = given.texts.map((text) => tokenizer.encode(text));
        console.log(JSON.stringify([ids, ids.map((row) => tokenizer.decode(row)), tokenizer.decode(given.special)]));
        """,
        texts=texts,
        file=str(next(pieces.glob("tokenizer-*"))),
        special=[1, 0, 9531],
    )
    wrong = [(text, a, b) for text, a, b in zip(texts, ids, found[0], strict=True) if a != b]
    assert wrong == []
    assert found[1] == [reference.decode(row) for row in ids]
    assert found[2] == reference.decode([1, 0, 9531])
