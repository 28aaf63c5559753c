// Quizzes: choosing an answer shows its feedback. The texts are in the page already, behind a disclosure.
addEventListener("DOMContentLoaded", () => {
  for (const quiz of document.querySelectorAll("fieldset.quiz")) {
    const answers = quiz.querySelector(".quiz-answers");
    const result = quiz.querySelector(".quiz-result");
    answers.hidden = true;
    quiz.addEventListener("change", (event) => {
      const feedback = answers.querySelector(`[data-choice="${event.target.value}"]`);
      result.dataset.right = feedback.dataset.right;
      result.replaceChildren(...[...feedback.childNodes].map((node) => node.cloneNode(true)));
      result.querySelector(".quiz-named").remove(); // the choice itself: it is marked above
    });
  }
});

// From the file system a browser shows a notebook instead of saving it. Then the link says what to do.
addEventListener("DOMContentLoaded", () => {
  if (location.protocol !== "file:") return;
  for (const link of document.querySelectorAll(".chapter-download a")) {
    const hint = document.createElement("small");
    hint.textContent = "Right-click and choose “Save link as”.";
    link.after(" ", hint);
  }
});

// From the file system no page may read another, so the search lists its results without the passages around the word.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined")
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
