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


# load_balance_loss

def balance_by_one_hot(probabilities, experts):
    """Means of ones and zeros in place of counts."""
    n_experts = probabilities.shape[-1]
    chosen = torch.nn.functional.one_hot(experts, n_experts).to(probabilities.dtype)
    return n_experts * (chosen.mean(dim=(0, 1)) @ probabilities.mean(dim=0))


def balance_choice_by_choice(probabilities, experts):
    """A loop over choices: each adds the mean probability of its expert, so that nothing is counted."""
    means = probabilities.mean(0)
    total = sum(means[e] for e in experts.flatten().tolist())
    return total * probabilities.shape[1] / experts.numel()


def balance_by_scattering(probabilities, experts):
    """A table of choices for each token, filled by scatter, and two sums."""
    n, n_experts = probabilities.shape
    table = torch.zeros(n, n_experts, dtype=torch.float64).scatter_add_(1, experts, torch.ones(experts.shape).double())
    shares = table.sum(0) / table.sum()
    return torch.einsum("e,ne->", shares.to(probabilities.dtype) * n_experts / n, probabilities)


ALTERNATIVES = {
    "route": [route_by_sorting, route_after_a_softmax],
    "MixtureOfExperts": [TokenByToken, SortedByExpert],
    "load_balance_loss": [balance_by_one_hot, balance_choice_by_choice, balance_by_scattering],
}
