"""A whole ensemble as one module: raw images in; probabilities, uncertainty by source and what to make of them out."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from uraenas.base.errors import UraenasError
from uraenas.data.targets import centred, names_of
from uraenas.engine.runtime import Output
from uraenas.ensemble import Ensemble, Known
from uraenas.ensemble.graph import MembersNetwork
from uraenas.ensemble.joining import beyond
from uraenas.ensemble.known import LAST
from uraenas.ensemble.predict import Rule
from uraenas.evaluation.conformal import REGULARISATION
from uraenas.evaluation.metrics import SOURCES
from uraenas.spaces import Features

FAREST = 1e5  # deviations from 0 to the centre of numbers; float32 has an error of 0.006 deviations there
TIE = 1e-5  # sums of logarithms that differ by less are equal, in float32


class EnsembleNetwork(nn.Module):
    """All members and what follows from them, in float32, for any number of images.

    Images are [N, H, W, C]: bytes, or floats from 0 to 1 where the ensemble was trained on such. Where the ensemble
    keeps something of the images it knows, and a rule is given, they get a p-value, a set, and whether to abstain.
    """

    def __init__(self, ensemble: Ensemble, rule: Rule | None = None) -> None:
        super().__init__()
        self.members = _members(ensemble)
        self.temperature = ensemble.temperature
        self.example = ensemble.example
        self.groups = _groups(ensemble)
        self.foreign = None
        if ensemble.known is not None and rule is not None:
            self.foreign = _Foreign(ensemble.known, [place for place, _ in self.members.places])
        self.rule = rule if self.foreign is not None else None

    @property
    def outputs(self) -> list[Output]:
        """What `forward` returns, in order."""
        found = [Output("probabilities", "by class, temperature-scaled")]
        found += [Output(source, f"{source} uncertainty in nats, not scaled") for source in SOURCES]
        if self.rule is not None:
            like = f"{'an' if self.example == 'image' else 'a'} {self.example} like those of the training"
            found.append(Output("p_value", f"how often {like} looks like this"))
            found.append(Output("abstain", "it is foreign, or not sure enough"))
            found.append(Output("prediction_set", "whether each class may be the true one"))
        return found

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        log_p, features, variants = self.members.look(images)
        mixed = _mixture(log_p)
        probability = torch.softmax(mixed / self.temperature, dim=-1)
        total, data = _entropy(mixed), _mean([_entropy(one) for one in variants])
        within = [_entropy(_mixture([log_p[m] for m in group])) * len(group) for group in self.groups]
        by_architecture = torch.stack(within).sum(dim=0) / len(log_p)
        found = (probability, total, data, by_architecture - data, total - by_architecture)
        if self.foreign is None or self.rule is None:
            return found
        p_value = self.foreign(total, features)
        sure = probability.amax(dim=-1) >= self.rule.threshold.confidence  # what is no number is not
        abstain = (p_value <= self.rule.share) | ~sure
        return (*found, p_value, abstain, _sets(probability, self.rule.quantile))


class NumbersNetwork(nn.Module):
    """The same of rows whose target is a number: its mean and deviation, an interval, and variance by source.

    The interval holds the true value of rows like the held-out ones as often as `coverage` says. Of several targets
    all this is said of each, and called by its name.
    """

    def __init__(self, ensemble: Ensemble, share: float, coverage: float) -> None:
        super().__init__()
        known = ensemble.require_known()
        self.target, self.share = ensemble.normalisation.target, share
        for part in self.target.parts:
            if abs(part.centre) > FAREST * part.scale:
                raise UraenasError(
                    f"the values of {part.column} are about {part.centre:.3g} and differ by {part.scale:.3g}, which a "
                    "file in float32 cannot tell apart; subtract a number from them before training"
                )
        units = replace(ensemble.normalisation, target=centred(self.target))
        self.members, self.groups = _members(replace(ensemble, normalisation=units)), _groups(ensemble)
        factors = ensemble.temperatures
        self.temperatures = factors if isinstance(factors, tuple) else (factors,)
        self.foreign = _Foreign(known, [place for place, _ in self.members.places])
        held_out = known.of_numbers
        panels = held_out.panels.tolist()
        self.panels = [
            [  # with the members of each, and how many of its deviations its interval reaches
                ([m for m, panel in enumerate(panels) if panel == number], quantile)
                for number, quantile in of_target.quantiles(coverage).items()
            ]
            for of_target in held_out.by_target
        ]

    @property
    def outputs(self) -> list[Output]:
        """What `forward` returns, in order."""
        about = {
            "predicted": "the mean",
            "deviation": "standard deviation, temperature-scaled",
            "low": "lower end of the interval",
            "high": "upper end of the interval",
            **{source: f"{source} variance, not scaled" for source in SOURCES},
        }
        return [
            *(
                Output(names_of(self.target, name)[k], words)
                for k in range(len(self.target.parts))
                for name, words in about.items()
            ),
            Output("p_value", "how often a row like those of the training looks like this"),
            Output("foreign", "it is unlike the training rows"),
        ]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        said, features, variants = self.members.look(images)
        found: list[Tensor] = []
        totals = []
        for k, part in enumerate(self.target.parts):
            means, variances = [one[..., 2 * k] for one in said], [one[..., 2 * k + 1].exp() for one in said]
            data = _mean([one[..., 2 * k + 1].exp() for one in variants])
            total, *parts = self._variance(means, variances, data)
            deviation = (total * self.temperatures[k]).sqrt()
            ends = _interval(self.panels[k], means, variances)
            predicted, low, high = (part.centre + one for one in (_mean(means), *ends))
            found += [predicted, deviation, low, high, total, *parts]
            totals.append(total)
        p_value = self.foreign(self._uncertainty(totals), features)
        return *found, p_value, p_value <= self.share

    def _uncertainty(self, totals: list[Tensor]) -> Tensor:
        """As `Measures` have it: of one target in its own unit, of several their mean in standard units."""
        if len(totals) == 1:
            return totals[0]
        pairs = zip(totals, self.target.parts, strict=True)
        return _mean([total / part.scale**2 for total, part in pairs])

    def _variance(self, means: list[Tensor], variances: list[Tensor], data: Tensor) -> tuple[Tensor, ...]:
        """The total, and its parts due to data, weights and architecture; what variants differ by is due to weights."""
        mean, beyond = _mean(means), torch.relu(_mean(variances) - data)
        own = [_mean([means[m] for m in group]) for group in self.groups]
        between = [(one - mean) ** 2 * len(group) for one, group in zip(own, self.groups, strict=True)]
        within = [(means[m] - one) ** 2 for one, group in zip(own, self.groups, strict=True) for m in group]
        architecture, weights = (torch.stack(one).sum(dim=0) / len(means) for one in (between, within))
        weights = weights + beyond
        return data + weights + architecture, data, weights, architecture


def _interval(
    panels: list[tuple[list[int], float]], means: list[Tensor], variances: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """As `Residuals.interval` has it."""
    lows, highs = [], []
    for members, quantile in panels:
        mean = _mean([means[m] for m in members])
        variance = _mean([variances[m] + (means[m] - mean) ** 2 for m in members])
        reach = quantile * variance.sqrt()
        lows.append(mean - reach)
        highs.append(mean + reach)
    count = len(panels)
    low = torch.stack(lows).kthvalue((count + 1) // 2, dim=0).values
    return low, torch.stack(highs).kthvalue(count // 2 + 1, dim=0).values


def _members(ensemble: Ensemble) -> MembersNetwork:
    facts = ensemble.members, ensemble.space, ensemble.normalisation
    return MembersNetwork(*facts, variants=ensemble.variants)


def _groups(ensemble: Ensemble) -> list[list[int]]:
    """Members of one architecture."""
    functions = list(dict.fromkeys(ensemble.functions))
    return [[m for m, own in enumerate(ensemble.functions) if own == one] for one in functions]


class _Foreign(nn.Module):
    """p-values as `Known` has them, in float32. Members that share a network see the same, so they are asked once."""

    def __init__(self, known: Known, networks: list[int]) -> None:
        super().__init__()
        held_out = known.stacked(known.scores)
        count = held_out.shape[1]
        ranked = held_out[: known.ranked]
        above = count - torch.searchsorted(ranked.sort(dim=1).values, ranked.contiguous())
        self.count, self.levels = count, len(known.seen[0].levels)
        self.names = known.names[: known.ranked]
        # In one order: a file of tensors gives them in another each time, and the bits would differ.
        self.reach = {name: max(float(reach), 1e-12) for name, reach in sorted(known.reach.items())}
        self.weight = len(held_out) * math.log(count + 1) / math.log(2)
        self.beyond: Tensor
        self.register_buffer("beyond", beyond(held_out, known.reach_S, count).float())
        self.held_out: Tensor
        self.before: Tensor
        self.after: Tensor
        self.register_buffer("held_out", ranked.float()[:, None])
        self.register_buffer("before", above.double().log().float()[:, None])
        self.register_buffer("after", (above + 1).double().log().float()[:, None])
        self.shares = [networks.count(network) / len(networks) for network in sorted(set(networks))]
        for network in range(len(self.shares)):
            for place, level in known.seen[networks.index(network)].parts.items():
                self.register_buffer(f"whitening_{network}_{place}", level.whitening.clone())
                self.register_buffer(f"means_{network}_{place}", level.means.clone())

    def forward(self, total: Tensor, features: list[Features]) -> Tensor:
        scores = {"uncertainty": total}
        for place in range(self.levels):
            scores[f"distance-{place + 1}"] = self._distance([seen[place] for seen in features], place)
        if "relative" in self.names:
            whole = self._distance([seen[LAST] for seen in features], "whole")
            scores["relative"] = scores[f"distance-{LAST + 1}"] - whole
        new = torch.stack([scores[name] for name in self.names]).unsqueeze(2)  # [S, N, 1]
        below = (new >= self.held_out).to(torch.float32)  # [S, N, n]
        as_large = (new <= self.held_out).to(torch.float32).sum(dim=2)
        own = -(as_large + 1).log().sum(dim=0)
        theirs = self.beyond - (self.before + below * (self.after - self.before)).sum(dim=0)
        for name, reach in self.reach.items():
            own = own + self.weight * torch.relu((scores[name] / reach).log())
        no_smaller = (theirs >= own.unsqueeze(1) - TIE).to(torch.float32).sum(dim=1)
        return (no_smaller + 1) / (self.count + 1)

    def _distance(self, features: list[Tensor], place: int | str) -> Tensor:
        """The members' mean."""
        found = []
        for network, own in enumerate(features):
            whitening = getattr(self, f"whitening_{network}_{place}")
            white = own @ whitening if whitening.ndim == 2 else own * whitening
            apart = white.unsqueeze(1) - getattr(self, f"means_{network}_{place}")
            found.append((apart * apart).mean(dim=2).amin(dim=1) * self.shares[network])
        return torch.stack(found).sum(dim=0)


def _mean(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors).mean(dim=0)


def _mixture(log_p: list[Tensor]) -> Tensor:
    """Log of the mean probability [N, K]."""
    stacked = torch.stack(log_p)
    largest = stacked.amax(dim=0)
    return (stacked - largest).exp().mean(dim=0).log() + largest


def _entropy(log_p: Tensor) -> Tensor:
    return -(log_p.exp() * log_p).sum(dim=-1)


def _sets(probability: Tensor, quantile: float) -> Tensor:
    """As `conformal.prediction_sets`, without sorting: a class is compared with each other one."""
    larger = (probability.unsqueeze(1) > probability.unsqueeze(2)).to(torch.float32)
    score = (larger * (probability.unsqueeze(1) + REGULARISATION)).sum(dim=2)
    return score <= quantile
