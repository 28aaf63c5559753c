// The editor of a cell: CodeMirror with Python, in the colors of the page.
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.bool, tags.null], color: "var(--answer-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--answer-string)" },
  { tag: [tags.comment], color: "var(--answer-comment)", fontStyle: "italic" },
  { tag: [tags.number], color: "var(--answer-number)" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.className], color: "var(--answer-name)" },
]);

// Tab indents once the reader types; after Escape it leaves the editor, and until then Tab is said to do so.
let leaving = false;
const tab = (move) => (view) => (leaving ? false : move(view));

export function makeEditor({ parent, text, label, describedBy, onChange, onCheck }) {
  const compare = new Compartment();
  // Selected, so that what is typed takes its place; in an answer the cursor is at the end.
  const todo = text.indexOf("raise NotImplementedError");
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      selection: todo < 0 ? { anchor: text.length } : { anchor: todo, head: todo + text.slice(todo).split("\n")[0].length },
      extensions: [
        keymap.of([
          { key: "Mod-Enter", run: () => (onCheck(), true), preventDefault: true },
          { key: "Escape", run: () => ((leaving = true), false) },
          { key: "Tab", run: tab(indentMore), shift: tab(indentLess) },
        ]),
        matchMedia("(max-width: 600px)").matches ? EditorView.lineWrapping : [], lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
        indentUnit.of("    "), EditorState.tabSize.of(4), python(), syntaxHighlighting(colors),
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": describedBy, autocapitalize: "off", autocorrect: "off", spellcheck: "false" }),
        EditorView.domEventHandlers({
          focus: () => void (leaving = false),
          keydown: (event) => void (event.key !== "Escape" && event.key !== "Tab" && event.key !== "Shift" && (leaving = false)),
        }),
        EditorView.updateListener.of((update) => update.docChanged && onChange()),
        compare.of([]),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    replace(next) {
      if (next !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, userEvent: "input.replace" });
    },
    focus: () => view.focus(),
    compareWith(original) {
      view.dispatch({ effects: compare.reconfigure(original === null ? [] : [
        unifiedMergeView({ original, mergeControls: false, gutter: true }),
      ]) });
    },
  };
}
