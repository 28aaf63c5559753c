"""Right answers to the chapter on experts, each found in another way than the reference."""

import torch

from solutions import mixture_of_experts as solutions

# route

def route_by_sorting(logits, top_k):
    order = logits.sort(dim=-1, descending=True)
    return torch.softmax(order.values[:, :top_k], dim=-1), order.indices[:, :top_k]


def route_after_a_softmax(logits, top_k):
    """A softmax over all, divided by what the chosen ones have: the total over all cancels."""
    weights, experts = torch.softmax(logits, dim=-1).topk(top_k)
    return weights / weights.sum(-1, keepdim=True), experts


# MixtureOfExperts

class TokenByToken(solutions.MixtureOfExperts):
    """A loop over tokens: each expert is given one vector at a time."""

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        out = []
        for row, logits in zip(rows, self.router(rows)):
            best, which = logits.topk(self.top_k)
            out.append(sum(w * self.experts[e](row) for w, e in zip(best.softmax(0), which.tolist())))
        return torch.stack(out).reshape(x.shape)


class SortedByExpert(solutions.MixtureOfExperts):
    """All choices sorted by expert and cut into pieces, as fast programs do it."""

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, experts = route_by_sorting(self.router(rows), self.top_k)
        order = experts.flatten().argsort(stable=True)
        counts = torch.bincount(experts.flatten(), minlength=len(self.experts)).tolist()
        pieces = rows[order // self.top_k].split(counts)
        made = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces) if len(piece)])
        back = torch.empty_like(made)
        back = back.index_copy(0, order, made).unflatten(0, (-1, self.top_k))
        return (weights[..., None] * back).sum(1).view_as(x)


ALTERNATIVES = {
    "route": [route_by_sorting, route_after_a_softmax],
    "MixtureOfExperts": [TokenByToken, SortedByExpert],
}
