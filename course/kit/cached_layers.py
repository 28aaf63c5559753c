"""Properties and mistakes that attention layers with a cache have in common, in the words of their references."""

from course.kit.edits import edit

ROTATED = dict(rtol=1e-4, atol=1e-5)
OWN_CACHE = (
    "One layer may read many texts in turn. Everything that is remembered of a text belongs in its cache, and not in "
    "`self`."
)
PRECISION = dict(
    title="keeps the precision and the device of its tokens, also in chunks",
    rtol=0.1,
    atol=0.1,
    hint="Weights and tokens in float32 give float32, and bfloat16 gives bfloat16. Create new tensors with "
    "`device=x.device`.",
)
UNCHANGED = dict(
    title="leaves its tokens as they were, and keeps nothing",
    **ROTATED,
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor. Do not use them on a tensor "
    "that the caller passed in.",
)
W_O = "self.W_o = nn.Linear(n_heads * d_head, d_model, bias=False)"
SOFTMAX = "softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))"
MERGED = "merge_heads(weights.to(v.dtype) @ v)"

DEFAULT_BASE = edit("super().__init__()", "super().__init__(); base = 10000.0",
         "`base` is not passed on, so RoPE uses its default.")  # fmt: skip
DEFAULT_EPS = edit("super().__init__()", "super().__init__(); eps = {}",
         "eps is fixed or left at the default of RMSNorm. Pass on the one that the layer gets.",
         each=(1e-5, 1e-6))  # fmt: skip
ALL_FROM_0 = edit("len(cache)", "0",
         "With a cache, positions and the mask begin at 0 again in each chunk. The first new token is at "
         "len(cache).")  # fmt: skip
WITH_BIASES = edit(W_O, f"{W_O}\n"
         "        for part in self.children():\n"
         "            if isinstance(part, nn.Linear): part.bias = nn.Parameter(torch.zeros(part.out_features))",
         "The maps have biases. nn.Linear adds one unless you say bias=False.")  # fmt: skip
POSITIONS_FROM_0 = edit("len(cache)", "0",
         "With a cache, positions begin at 0 again in each chunk. The first new token is at len(cache).",
         also={"positions[:, None]": "(positions + k.shape[2] - x.shape[1])[:, None]"})  # fmt: skip
MASK_FROM_0 = edit("positions[:, None]", "torch.arange(x.shape[1], device=x.device)[:, None]",
         "With a cache, the causal mask begins at the first key, so the first token of a chunk sees only the first "
         "token of the text. Token i of a chunk is at position len(cache) + i.")  # fmt: skip
MASK_ON_THE_CPU = edit("positions[:, None]", "positions[:, None].cpu()",
         "The mask is on the CPU, wherever x is, so the two cannot be combined. Create it with `device=x.device`.",
         also={"k.shape[2], device=x.device": "k.shape[2]"})  # fmt: skip
EMPTY_CACHE = edit("cache is None", "not cache",
         "The cache stays empty, so each chunk is read as if nothing had come before it. `if cache:` is False for a "
         "new cache, since its length is 0: write `cache is not None`.",
         also={"cache is not None": "cache"})  # fmt: skip
FINITE = edit("-math.inf", "-1e4",
         "Hidden scores are set to a large negative number, and some score is lower still. Use minus "
         "infinity.")  # fmt: skip
OVER_QUERIES = edit(SOFTMAX, "softmax(dim=-2).nan_to_num()",
         "The softmax runs over the queries (dim=-2). The weights of each query sum to 1: the keys are "
         "the last axis.")  # fmt: skip
NO_MAXIMUM = edit(f"scores.{SOFTMAX}", "(scores.exp() / scores.exp().sum(dim=-1, keepdim=True))",
         "No maximum is subtracted, so exponentials of large scores overflow, and infinity divided by infinity is nan. "
         "Use torch.softmax.")  # fmt: skip
MERGED_BY_VIEW = edit(MERGED, "(weights.to(v.dtype) @ v).reshape(*x.shape[:2], -1)",
         "The heads are merged by a `reshape` or `view` alone, which mixes heads and tokens: their axes must be "
         "exchanged first. Use `merge_heads`.")  # fmt: skip
NOT_MAPPED_BACK = edit(f"self.W_o({MERGED})", f"nn.functional.pad({MERGED}, (0, x.shape[-1]))[..., : x.shape[-1]]",
         "W_o is missing: the merged heads are not mapped back.")  # fmt: skip
NO_GRADIENT = edit("def forward(self, x: torch.Tensor", "@torch.no_grad()\n    def forward(self, x: torch.Tensor",
         "No gradient arrives: the layer works under `torch.no_grad()` or on detached tensors, and could never be "
         "trained.")  # fmt: skip
