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
