"""Wrong answers to the chapter on the whole model that its list of misconceptions does not hold in these words."""

import functools

import torch

from solutions import language_model as solutions
from solutions.kv_cache import KVCache
from tests.alternatives.language_model import (
    HeadAsALayer,
    generate_prompt_first,
    patch_and_remove_at_last,
    patch_behind_the_mix,
    sample_by_steps_on_a_line,
)
from tests.unseen.parts import changed

model = functools.partial(changed, HeadAsALayer)


def sample_with(change):
    """`sample` whose arguments after the logits are changed: temperature, top_k, top_p and generator."""
    def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
        return solutions.sample(logits, *change(temperature, top_k, top_p, generator))
    return sample


def seeded(seed):
    """`sample` with a generator of its own, or with PyTorch's, as `seed` leaves it, where none is given."""
    return sample_with(lambda t, k, p, g: (t, k, p, seed() if g is None else g))


def generate_with(change):
    """`generate` that changes its generator before each token."""
    def generate(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
        caches = [KVCache() for _ in model.blocks] if use_cache else None
        text, piece, kept = ids, ids, generator and generator.get_state()
        for _ in range(max_new_tokens):
            generator = generator and change(generator, kept)
            logits = model(piece if use_cache else text, caches)[:, -1]
            piece = solutions.sample(logits, temperature, generator=generator)[:, None]
            text = torch.cat([text, piece], dim=1)
        return text
    return generate


def with_caches_that_stay(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True):
    """They are kept with the blocks that fill them."""
    if not hasattr(model.blocks, "kept"):
        model.blocks.kept = [KVCache() for _ in model.blocks]
    text, piece = ids, ids
    for _ in range(max_new_tokens):
        logits = model(piece if use_cache else text, model.blocks.kept if use_cache else None)[:, -1]
        piece = solutions.sample(logits, temperature, generator=generator)[:, None]
        text = torch.cat([text, piece], dim=1)
    return text


def weights_zeroed(model, ids, donor_ids, layer, head, n_heads):
    """Right logits, and a head that is gone afterward."""
    logits = solutions.patch_head(model, ids, donor_ids, layer, head, n_heads)
    model.blocks[layer].attention.W_o.weight.data[:, : 6 // n_heads] = 0
    return logits


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "LanguageModel": [
        (model("self.head(self.norm(x))", "self.head(self.norm(x))[:, -1]"), "Only the last position"),
        (model("if caches is None", "if caches is None or i == 0"), None),
        (model("n_kv_heads=n_kv_heads", "n_kv_heads=n_heads"), None),
        (model("self.blocks = ", "self.places = nn.Embedding(64, d_model)\n        self.blocks = ", "self.embedding(ids)",
               "self.embedding(ids) + self.places.weight[: ids.shape[1]]"), None),
        (model('raise ValueError("ids outside of the vocabulary")', "ids = ids % self.embedding.num_embeddings"), None),
    ],
    "sample": [
        (sample_with(lambda t, k, p, g: (t, None, None, g)), "is not used"),
        (sample_with(lambda t, k, p, g: (t, k, p)), "global random state"),
        (sample_with(lambda t, k, p, g: (t, k, p and p / 2, g)), None),
        (sample_with(lambda t, k, p, g: (t**2, k, p, g)), None),
        (sample_with(lambda t, k, p, g: (max(t, 1e-6), k, p, g)), None),
        (sample_with(lambda t, k, p, g: (t or 0.05, k, p, g)), None),
        (changed(sample_by_steps_on_a_line, "len(rows), 1)", "1, 1)", " * line[:, -1:]", ".expand(len(rows), 1) * line["
                 ":, -1:]"), "One random number"),
        (seeded(lambda: torch.manual_seed(0) and None), "seeded inside"),
        (seeded(lambda: torch.Generator().manual_seed(torch.initial_seed())), None),
        (seeded(lambda: torch.Generator().manual_seed(torch.seed())), None),
        (sample_with(lambda t, k, p, g: (t, k, p, g and g.manual_seed(g.initial_seed()))), None),
    ],
    "generate": [
        (with_caches_that_stay, "outlive the call"),
        (changed(generate_prompt_first, "logits = model(ids, caches)", "logits = model(ids[:, -1:], caches)"),
         "only its last token is fed"),
        (generate_with(lambda generator, kept: generator.set_state(kept)), "set back"),
        (generate_with(lambda generator, kept: generator.clone_state()), None),
        (generate_with(lambda generator, kept: torch.Generator().manual_seed(generator.initial_seed())), None),
    ],
    "patch_head": [
        (changed(patch_behind_the_mix, "logits.clone()", "logits[:, -1:].clone()"), "last position"),
        (weights_zeroed, None),
        (changed(patch_and_remove_at_last, "try:", "if True:", "return [", "logits = [", "finally:", "if True:",
                 "handle.remove()", "handle.remove()\n            return logits"), "never reached"),
    ],
}
