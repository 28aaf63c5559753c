// Verifies the signed record of a student's work (autograder/reports/signed_record.py). Nothing leaves the browser.
(() => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

  async function isSigned({ record, signature, key }) {
    const known = await crypto.subtle.importKey("raw", bytes(key), "Ed25519", false, ["verify"]);
    return crypto.subtle.verify("Ed25519", known, bytes(signature), new TextEncoder().encode(record));
  }

  function row(kind, ...texts) {
    const made = document.createElement("tr");
    made.append(...texts.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
    return made;
  }

  async function verdict(text, keys) {
    let file, record;
    try {
      file = JSON.parse(text);
      record = JSON.parse(file.record);
      if (!Array.isArray(record.chapters) || typeof file.signature !== "string") throw new SyntaxError();
    } catch {
      return ["This is not a record of this course."];
    }
    if (!globalThis.crypto?.subtle) return ["Your browser verifies signatures only on pages from an https address."];
    let right;
    try {
      right = await isSigned(file);
    } catch (error) {
      if (error.name === "NotSupportedError") return ["Your browser is too old to verify such a signature (Ed25519)."];
      right = false;
    }
    if (!right) return ["The signature is wrong: this record was changed, or it was never signed."];
    const whose = keys.includes(file.key) ? "by a course of this site"
      : `with the key ${file.key}, which this site does not know: ask the course that issued it whether the key is its own`;
    const about = [record.course, record.name, record.issued].filter(Boolean).join(", ");
    return [`The signature is right. ${about}. Signed ${whose}.`, record.chapters];
  }

  for (const box of document.querySelectorAll(".verify-record")) {
    const [said, table] = [box.querySelector("[role=status]"), box.querySelector("table")];
    box.querySelector("input").addEventListener("change", async ({ target }) => {
      if (!target.files.length) return;
      const [words, chapters] = await verdict(await target.files[0].text(), box.dataset.keys.split(" "));
      said.textContent = words;
      table.hidden = !chapters;
      if (chapters) table.replaceChildren(row("th", "chapter", "points"),
        ...chapters.map(({ chapter, points, of }) => row("td", chapter, `${points} of ${of}`)));
    });
  }
})();
