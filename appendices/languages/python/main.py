"""Five programs in plain Python: the first argument says which.

    python main.py attention < problem.txt
"""

import sys
from collections import deque

from attention import attend
from causal_mask import causal_mask
from encoder_block import EncoderBlock, FeedForward, LayerNorm
from matrix import print_matrix, read_mask, read_matrix, read_sizes
from multi_head import MultiHead
from sinusoidal_encoding import sinusoidal_encoding


def run_attention(words, causal=False):
    n_q, n_k, d_k, d_v = read_sizes(words, "n_q", "n_k", "d_k", "d_v")
    Q = read_matrix(words, "Q", n_q, d_k)
    K = read_matrix(words, "K", n_k, d_k)
    V = read_matrix(words, "V", n_k, d_v)
    mask = causal_mask(n_q, n_k) if causal else read_mask(words, n_q, n_k)
    output, weights = attend(Q, K, V, mask)
    print_matrix("output", output)
    print_matrix("weights", weights)


def run_causal_mask(words):
    run_attention(words, causal=True)


def read_heads(words, d_model, n_heads):
    if d_model % n_heads:
        raise ValueError(f"n_heads: {n_heads} does not divide {d_model}")
    return MultiHead(n_heads, *(read_matrix(words, name, d_model, d_model)
                                for name in ("W_q", "W_k", "W_v", "W_o")))


def read_norm(words, name, d_model):
    return LayerNorm(*read_matrix(words, name, 2, d_model))


def run_multi_head(words):
    n, d_model, n_heads = read_sizes(words, "n", "d_model", "n_heads")
    x = read_matrix(words, "x", n, d_model)
    heads = read_heads(words, d_model, n_heads)
    output, weights = heads.forward(x, read_mask(words, n, n))
    print_matrix("output", output)
    for seen in weights:
        print_matrix("weights", seen)


def run_sinusoidal_encoding(words):
    n, d_model = read_sizes(words, "n", "d_model")
    if d_model % 2:
        raise ValueError(f"d_model: {d_model} is odd")
    print_matrix("encoding", sinusoidal_encoding(n, d_model))


def run_encoder_block(words):
    n, d_model, n_heads, d_ff = read_sizes(
        words, "n", "d_model", "n_heads", "d_ff")
    x = read_matrix(words, "x", n, d_model)
    block = EncoderBlock(
        read_norm(words, "norm_1", d_model),
        read_heads(words, d_model, n_heads),
        read_norm(words, "norm_2", d_model),
        FeedForward(read_matrix(words, "W_1", d_model, d_ff),
                    read_matrix(words, "b_1", 1, d_ff)[0],
                    read_matrix(words, "W_2", d_ff, d_model),
                    read_matrix(words, "b_2", 1, d_model)[0]))
    print_matrix("output", block.forward(x, read_mask(words, n, n)))


RUN = {
    "attention": run_attention,
    "multi_head": run_multi_head,
    "sinusoidal_encoding": run_sinusoidal_encoding,
    "encoder_block": run_encoder_block,
    "causal_mask": run_causal_mask,
}


def main():
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    words = deque(sys.stdin.read().split())
    more = True
    while more:
        try:
            if name not in RUN:
                raise ValueError(f"'{name}' is not the name of a program")
            RUN[name](words)
        except ValueError as error:
            sys.exit(str(error))
        more = bool(words)


if __name__ == "__main__":
    main()
