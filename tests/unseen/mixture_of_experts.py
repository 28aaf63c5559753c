"""Wrong answers to the chapter on experts that its list of mistakes does not hold in these words."""

import torch

from solutions import mixture_of_experts as solutions
from tests.alternatives.mixture_of_experts import (
    SortedByExpert,
    balance_by_one_hot,
    balance_choice_by_choice,
    route_by_sorting,
)
from tests.unseen.parts import changed

CHOSEN = "route(self.router(rows), self.top_k)"
CHOICE = f"weights, experts = {CHOSEN}"
SIGMOIDS = "order.values[:, :top_k].sigmoid()"
VALUES = "torch.softmax(order.values[:, :top_k], dim=-1)"


class AllRowsToo(SortedByExpert):
    """Calls every expert once more for nothing."""

    def forward(self, x):
        for expert in self.experts:
            expert(x.flatten(0, 1))
        return super().forward(x)


def leave_together(logits, top_k):
    """Hides what was chosen by the value of its logit."""
    values, experts = [], []
    for _ in range(top_k):
        values.append(logits.amax(-1))
        experts.append(logits.argmax(-1))
        logits = torch.where(logits == values[-1][:, None], -torch.inf, logits)
    return torch.stack(values, -1).softmax(-1), torch.stack(experts, -1)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "route": [
        (changed(route_by_sorting, "order.indices[:, :top_k]", "order.indices[:, :top_k].float()"), "are floats"),
        (changed(route_by_sorting, VALUES, f"{VALUES}.log()"), None),
        (leave_together, "leave together"),
        (lambda logits, top_k: torch.stack(route_by_sorting(logits, top_k)), None),
        (lambda logits, top_k: tuple(part.squeeze() for part in route_by_sorting(logits, top_k)), None),
        (changed(route_by_sorting, VALUES, f"torch.nn.functional.normalize({SIGMOIDS}, p=1, dim=-1)"), "are sigmoids"),
    ],
    "MixtureOfExperts": [
        (AllRowsToo, None),
        (changed(solutions.MixtureOfExperts, "weights[token, choice, None]", "weights[token, 0, None]"),
         "first weight of its token"),
        (changed(solutions.MixtureOfExperts, CHOSEN, "(part.repeat_interleave(x.shape[1], 0) for part in "
                 "route(self.router(x.mean(1)), self.top_k))"), "routed together"),
        (changed(solutions.MixtureOfExperts, CHOICE, f"self.kept = getattr(self, 'kept', None) or {CHOSEN}\n        "
                 "weights, experts = self.kept"), None),
    ],
    "load_balance_loss": [
        (changed(balance_by_one_hot, "return n_experts * ", "return "), "not multiplied"),
        (changed(balance_by_one_hot, "chosen.mean(dim=(0, 1))", "chosen.sum(dim=1).mean(dim=0)"), "number of tokens"),
        (changed(balance_by_one_hot, "one_hot(experts, n_experts)", "one_hot(experts[:, :1], n_experts)"), "first choice"),
        (changed(balance_choice_by_choice, "means[e]", "means[e].detach()"), "gradient is cut"),
        (changed(balance_choice_by_choice, "probabilities.shape[1]", "len(set(experts.flatten().tolist()))"),
         "at least once"),
        (changed(balance_by_one_hot, "chosen.mean(dim=(0, 1))", "chosen.mean(dim=(0, 1)).clamp(max=0.5)"), None),
        (changed(balance_by_one_hot, "probabilities.mean(dim=0)", "probabilities.median(dim=0).values"), None),
    ],
}
