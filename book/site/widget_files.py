"""Move the code and the style of widgets out of the pages into files that all pages share.

A widget's state, as a notebook saves it, holds the widget's whole module and style sheet, in each page and for each
view. Here both become one script in `_static/widgets`, named by a hash of what it holds, and the state keeps that
name: `host.js` looks it up. What all widgets of the course begin with is a file of its own. Such a script can be loaded
from the file system as well, where a module could not.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from attnlab.widgets import _base

FOLDER = "_static/widgets"
COMMON = (_base.HERE / "common.js").read_text("utf-8")
BEGINNING = {"_esm": _base.COMMENT.sub("", COMMON), "_css": _base.STYLE}
STATE = re.compile(r'(<script type="application/vnd\.jupyter\.widget-state\+json">)(.*?)(</script>)', re.DOTALL)
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
            used.update(re.findall(rf"{FOLDER}/([\w-]+\.js)", lighter))
    for path in folder.glob("*.js"):
        if path.name not in used:
            path.unlink()


def lighten(page: str) -> tuple[str, dict[str, str]]:
    """Return the page with names in place of texts, and the files with these texts. A page that has names is kept."""
    files: dict[str, str] = {}

    def add(texts: dict[str, str]) -> str:
        content = json.dumps(texts, ensure_ascii=False)
        name = hashlib.sha256(content.encode()).hexdigest()[:20]  # so that a page never gets texts of an older build
        files[f"{name}.js"] = f'(self.widgetFiles ??= {{}})["{name}"] = {content};\n'
        return name

    def name_texts(match: re.Match) -> str:
        saved = json.loads(match[2])
        for model in saved["state"].values():
            state = model["state"]
            if state.get("_esm"):
                texts = {key: state.pop(key, "") for key in BEGINNING}
                if all(texts[key].startswith(BEGINNING[key]) for key in texts):
                    texts = {key: texts[key].removeprefix(BEGINNING[key]) for key in texts}
                    texts["after"] = add(BEGINNING)
                state["_files"] = add(texts)
        return match[1] + json.dumps(saved, separators=(",", ":")).replace("<", "\\u003c") + match[3]

    lighter = STATE.sub(name_texts, page)
    host = HOST.search(lighter)
    if not files or not host:
        return page, {}
    tags = "".join(f'<script defer="defer" src="{host[1]}{FOLDER}/{name}"></script>\n' for name in sorted(files))
    return lighter[: host.start()] + tags + lighter[host.start() :], files
