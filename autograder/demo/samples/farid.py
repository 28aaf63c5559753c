"""A cell that raises while the notebook runs, and functions that raise when called: the rest still counts."""

ABOUT = "errors: a cell that raises, a misspelt name, endless recursion"
REFERENCES = "all"
CHAPTERS = ["dot_products", "softmax", "attention"]


def cosine_similarity(a, b):
    return np.dot(a, b) / (np.linalg.norm(a) * np.linalg.nrom(b))


def log_softmax(x, axis=-1):
    return log_softmax(x, axis)


CELLS = {"project_qkv": "def project_qkv(x, W_q, W_k, W_v):\n    return x @ W_q, x @ W_k, x @ W_v\n\n1 / 0"}
