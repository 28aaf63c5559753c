"""The capstone on today's models: it has no exercise, only a question graded by hand."""

from course.kit.exercise import Written

written = Written(
    points=4,
    rubric="""
One point each:

1. **The parts.** `MixtureOfExperts` (with `route` and `SwiGLU`), `KVCache`, `sliding_window_mask` and `causal_mask`,
   `softmax_with_sink`, `rms_norm` on queries and keys, RoPE, `repeat_kv`. `QKNormAttention` cannot be used as it is: it
   has norms, a free head width and a window, but no sink. Either its code is extended, or attention is assembled from
   functions, as for gpt-oss, with the norm on each head (128 numbers, so not over all heads as in OLMo 2). Half a point
   if the conflict of sink and `QKNormAttention` is missed.
2. **The cache.** Per token and layer 2 x 4 x 128 x 2 = 2048 bytes. 9 full layers: 9 x 100,000 x 2048 = 1.84 GB. 27
   layers with a window keep 2048 tokens: 27 x 2048 x 2048 = 0.11 GB. Together 1.96 GB, and 7.37 GB without windows: 3.8
   times as much. Half a point for right formulas with a slip, or for the number of heads 24 in place of 4.
3. **What 12 tokens in one pass do not show.** Three of, each with its test: the width of the window, by one or at all,
   and which layers have it (more than 2048 tokens, or a small model with a small window); positions and masks with a
   cache (chunks of different sizes, also one token); stretched frequencies, if the change is small at short lengths
   (long sequences); several rows at once (a batch); rarely chosen experts (which of the 64 were called at all);
   precision (bfloat16). Half a point for two of them, or for three without tests.
4. **Evidence for the sinks.** Two models trained alike, on the same tokens and with several seeds if possible, that
   differ in the sinks alone; a loss on held-out text, and tasks with long sequences. The weight that goes to the sinks
   shows that they are used, not that they help. Half a point for "an ablation" without what is held equal.

Model answer. "I need MixtureOfExperts, KVCache, the two masks, softmax_with_sink, rms_norm and RoPE. QKNormAttention
has everything but the sink, so I would assemble attention from functions, with a norm on each head. A layer keeps 2048
bytes per token. Nine full layers keep 1.84 GB for 100,000 tokens, the other 27 keep 2048 tokens each, 0.11 GB: 1.96 GB,
and 7.37 GB without windows. Twelve tokens never reach the end of the window, so its width could be wrong or missing; I
would test 3,000 tokens, or a small model with a window of 5. One pass does not use the cache; I would read in chunks of
5, 1 and the rest. Twelve tokens use at most 72 of the experts' places, so I would count which experts were called, and
go on until all were. That sinks help I would believe after two trainings that differ in nothing else, from three seeds,
with a lower held-out loss or better answers on long texts. Weight on the sinks alone shows only that they are used."

Common half answers: 24 heads in the cache; "the test is too short" without what it would miss; "other models have sinks
too" as evidence.
""",
)
