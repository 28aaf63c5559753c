"""SmolLM2-135M in a page: its file in pieces that a browser loads as it needs them, and the engine that runs them.

    make live      # writes the pieces of the packaged file into build/live; `make book` puts them into the site

`engine/` is plain JavaScript, which reads as the course does: text to ids (`tokenizer.js`), ids to logits
(`model.js`), logits to a token (`sample.js`), one matrix product under all of it (`linear.js`, `kernel.wat`), and a
worker that loads, reads and writes (`pieces.js`, `worker.js`). A function that a chapter teaches has the name of its
exercise.
"""
