"""Wrong answers to the chapter on experts that its list of mistakes does not hold in these words."""

from solutions import mixture_of_experts as solutions
from tests.alternatives.mixture_of_experts import SortedByExpert, route_by_sorting
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


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "route": [
        (changed(route_by_sorting, "order.indices[:, :top_k]", "order.indices[:, :top_k].float()"), "are floats"),
        (changed(route_by_sorting, VALUES, f"{VALUES}.log()"), None),
        (changed(route_by_sorting, VALUES, f"torch.nn.functional.normalize({SIGMOIDS}, p=1, dim=-1)"), "are sigmoids"),
    ],
    "MixtureOfExperts": [
        (AllRowsToo, None),
        (changed(solutions.MixtureOfExperts, CHOICE, f"self.kept = getattr(self, 'kept', None) or {CHOSEN}\n        "
                 "weights, experts = self.kept"), None),
    ],
}
