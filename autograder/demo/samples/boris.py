ABOUT = "partial: the first exercises of each chapter, the rest untouched"
REFERENCES = ["dot", "cosine_similarity", "softmax", "log_softmax", "project_qkv", "attention_weights",
              "causal_mask", "padding_mask"]
CHAPTERS = ["dot_products", "softmax", "attention", "masks"]
