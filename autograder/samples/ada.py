ABOUT = "complete: every exercise solved"
REFERENCES = "all"
WRITTEN = {
    "dot_products": "Longer vectors score higher even when they point the same way, so the score mixes length and "
                    "direction. Dividing by both lengths leaves the direction alone.",
    "softmax": "exp turns differences of scores into ratios of weights; adding a constant multiplies every exponential "
               "by the same factor, which cancels in the division.",
    "attention": "Without the division the scores spread as sqrt(d_k), softmax saturates, and almost no gradient flows.",
}
