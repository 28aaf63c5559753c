ABOUT = "complete: every exercise solved"
REFERENCES = "all"
WRITTEN = {
    "dot_products": "Longer vectors score higher even when they point the same way, so the score mixes length and "
                    "direction. Dividing by both lengths leaves the direction alone.",
    "softmax": "exp turns differences of scores into ratios of weights; adding a constant multiplies every exponential "
               "by the same factor, which cancels in the division.",
    "attention": "Without the division the scores spread as sqrt(d_k), softmax saturates, and almost no gradient flows.",
    "masks": "With the mask, position i is computed from tokens 0 to i alone, so all n predictions of one pass are honest. "
             "Without it the next token is an input, and the loss falls by copying.",
    "multi_head": "A head has one softmax, so one set of weights per token. Several heads look at several things at once, "
                  "and W_o mixes what they found.",
    "cross_attention": "The queries come from the translation so far, keys and values from the source. So the weights are "
                       "rectangular and padding is masked on the side of the source.",
    "positions": "Attention without positions gives the same rows in another order. A sinusoid makes an offset a rotation, "
                 "the same one wherever it starts.",
    "rope": "Query and key are turned by their own positions, and a dot product only sees the difference of two turns. So "
            "the score depends on the offset, and the values, which are not compared, are left alone.",
    "kv_cache": "Under a causal mask a token's key and value never depend on what comes later, so they can be kept. The "
                "query is needed once, for the token at hand.",
    "transformer_block": "Each sublayer reads a normed copy and adds to the stream, so the stream itself runs through "
                         "untouched and gradients reach the first block.",
    "language_model": "The model gives logits; temperature and the cuts decide which of them can be drawn. None of them "
                      "changes what the model has read.",
}
