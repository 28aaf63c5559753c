"""Move the code and the style of widgets out of the pages into files that all pages share.

A widget's state, as a notebook saves it, holds the widget's whole module and style sheet, in each page and for each
view. Here both become one script in `_static/widgets`, named by a hash of what it holds, and the state keeps that
name. What all widgets of the course begin with is a file of its own, and so are a widget's values if they are many.
Such a script can be loaded from the file system as well, where a module could not. A page loads those of its first
widget, and `host.js` the others when the reader comes near.

Each view gets its box here, with its height, so that nothing moves when `host.js` draws into it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path

from attnlab.widgets import _base

FOLDER = "_static/widgets"
MANY = 2000  # characters: fewer values stay in the page
LINE = 21.3  # the height of a line of a question, in pixels
COMMON = (_base.HERE / "common.js").read_text("utf-8")
BEGINNING = {"_esm": _base.COMMENT.sub("", COMMON), "_css": _base.STYLE}
STATE = re.compile(r'(<script type="application/vnd\.jupyter\.widget-state\+json">)(.*?)(</script>)', re.DOTALL)
VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>', re.DOTALL)
NAME = re.compile(r'"([0-9a-f]{20})"')
HOST = re.compile(r'<script [^>]*src="([^"]*)_static/host\.js')


def share(app, exception) -> None:
    """Do so with all pages that have just been written, and remove the files that no page uses any more."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    folder = out / FOLDER
    used: set[str] = set()
    for path in out.rglob("*.html"):
        page = path.read_text("utf-8")
        if "widget-state+json" in page:
            lighter, files = lighten(page)
            for name, content in files.items():
                folder.mkdir(exist_ok=True)
                (folder / name).write_text(content, "utf-8")
            if lighter != page:
                path.write_text(lighter, "utf-8")
            used.update(f"{name}.js" for state in STATE.findall(lighter) for name in NAME.findall(state[1]))
    for path in folder.glob("*.js"):
        if path.name not in used:
            path.unlink()


def box(state: dict) -> str:
    """The element that a widget is drawn into, as high as the widget will be: its drawing, and its longest question."""
    letters = max((len(question(each)) for each in state.get("predictions", [])), default=0)
    drawing = state.get("min_height", 0)
    wide, narrow = drawing, drawing + state.get("narrow_extra", 0)
    if state.get("predictions"):  # the margins, and lines of so many letters
        wide += 61 + LINE * math.ceil(letters / 68)
        narrow += 87 + LINE * math.ceil(letters / 40)
    return f'<div class="widget-view" style="--wide: {wide:g}px; --narrow: {narrow:g}px"></div>'


def question(prediction) -> str:
    """The words of a prediction, which may come with choices."""
    return prediction if isinstance(prediction, str) else prediction[0]


def lighten(page: str) -> tuple[str, dict[str, str]]:
    """Return the page with names in place of texts, and the files with these texts. A page that has names is kept."""
    files: dict[str, str] = {}
    states: dict[str, tuple[dict, dict]] = {}  # by model: what was saved, and what names it

    def add(what: dict) -> str:
        content = json.dumps(what, ensure_ascii=False)
        name = hashlib.sha256(content.encode()).hexdigest()[:20]  # so that a page never gets texts of an older build
        files[f"{name}.js"] = f'(self.widgetFiles ??= {{}})["{name}"] = {content};\n'
        return name

    def name_texts(match: re.Match) -> str:
        saved = json.loads(match[2])
        for number, model in saved["state"].items():
            state = model["state"]
            if state.get("_esm"):
                texts = {key: state.pop(key, "") for key in BEGINNING}
                names = []
                if all(texts[key].startswith(BEGINNING[key]) for key in texts):
                    texts = {key: texts[key].removeprefix(BEGINNING[key]) for key in texts}
                    names.append(add(BEGINNING))
                named = {"_files": [*names, add(texts)]}
                values = {key: model[key] for key in ("state", "buffers") if key in model}
                if len(json.dumps(values)) > MANY:
                    named["_saved"] = add(values)
                    model.pop("buffers", None)
                    model["state"] = named
                else:
                    state.update(named)
                states[number] = (state, named)
        return match[1] + json.dumps(saved, separators=(",", ":")).replace("<", "\\u003c") + match[3]

    def add_box(match: re.Match) -> str:
        state, _ = states.get(json.loads(match[1])["model_id"], ({}, {}))
        return match[0] + (box(state) if state else "")

    lighter = VIEW.sub(add_box, STATE.sub(name_texts, page))
    host = HOST.search(lighter)
    if not files or not host:
        return page, {}
    views = (json.loads(view)["model_id"] for view in VIEW.findall(lighter))
    first = next((states[model][1] for model in views if model in states), {})
    names = [*first.get("_files", []), *filter(None, [first.get("_saved")])]
    tags = "".join(f'<script defer="defer" src="{host[1]}{FOLDER}/{name}.js"></script>\n' for name in names)
    return lighter[: host.start()] + tags + lighter[host.start() :], files
