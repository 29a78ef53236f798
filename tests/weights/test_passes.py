"""Kinds of weights that wrap the network: each is the plain network where it should be, and a draw is a function."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_networks import (
    EVERY_OPERATION,
    SETTINGS,
    SHORT,
    SPACE,
    WRAPPED,
    chains,
    images,
    logits_of,
    made,
    member_of,
    network_of,
    part,
    trained,
)
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.files import read_json, write_json
from uraenas.data.loader import Normalisation
from uraenas.deploy.network import EnsembleNetwork
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Ensemble, Member, MembersPredictor
from uraenas.ensemble.at_test_time import with_statistics_of
from uraenas.ensemble.networks import served
from uraenas.ensemble.statistics import measured_statistics
from uraenas.spaces import PLAIN, Apply, Draw, Network, Passage, Stack, Tensors, Term
from uraenas.weights import WEIGHTS

# Settings, and what is done to the weights by name, that should leave the plain network.
NEUTRAL: dict[str, tuple[dict[str, Any], Callable[[str, Tensor], Tensor]]] = {
    "dropout": ({"rate": 0.0}, lambda name, weight: weight),
    "dropconnect": ({"rate": 0.0}, lambda name, weight: weight),
    "swapout": ({"keep": 1.0}, lambda name, weight: weight),
    "stochastic_depth": ({"keep": 1.0}, lambda name, weight: weight),
    "laplace": ({}, lambda name, weight: 0 * weight if ".laplace." in name else weight),
    "batch_ensemble": ({"size": 3}, lambda name, weight: set_to(name, weight)),
    "rank_one": ({"size": 3}, lambda name, weight: set_to(name, weight)),
    "mimo": ({"inputs": 1}, lambda name, weight: weight),
    "variational": ({}, lambda name, weight: set_to(name, weight)),
    "ssig": ({}, lambda name, weight: set_to(name, weight)),
    "sebays": ({}, lambda name, weight: set_to(name, weight)),
}
EVERY = pytest.mark.parametrize("name", WRAPPED)
NOTHING = {".inputs": 1.0, ".outputs": 1.0, ".spread": -1000.0, ".gate": 1000.0}  # factors, ρ, log odds


def set_to(name: str, weight: Tensor) -> Tensor:
    """Weights of the kind's own as they change nothing."""
    found = [value for end, value in NOTHING.items() if name.endswith(end)]
    return torch.full_like(weight, found[0]) if found else weight


def test_every_kind_that_wraps_the_network_is_held_against_the_plain_one() -> None:
    assert set(WRAPPED) == set(NEUTRAL)


@EVERY
@pytest.mark.parametrize("number", [None, 0], ids=["training", "prediction"])
def test_without_masks_factors_and_spread_it_is_the_plain_network(name: str, number: int | None) -> None:
    """Logits, and the gradient of the network's own weights."""
    settings, change = NEUTRAL[name]
    method = made(name, **settings)
    wrapped, plain = network_of(method), Stack([EVERY_OPERATION], SPACE).double()
    views = wrapped.weight_layouts[0].views(wrapped.weights.detach())
    for entry, view in views.items():
        view.copy_(change(entry, view))
    own = plain.weight_layouts[0].size
    plain.put(0, wrapped.weights[:own], wrapped.statistics)
    x = torch.cat([images()] * (method.changes.repeats if number is None else 1))
    found = logits_of(method, wrapped, x, number)
    expected = plain.train(number is None)(x)[0]
    heads = found.view(len(x), -1, 10)
    torch.testing.assert_close(heads, expected[:, None].expand_as(heads), atol=1e-6, rtol=0)
    slopes = [
        torch.autograd.grad((one.view(len(x), -1, 10).mean(dim=1) ** 2).sum(), stack.weights)[0]
        for one, stack in ((found, wrapped), (expected, plain))
    ]
    torch.testing.assert_close(slopes[0][:own], slopes[1], atol=1e-6, rtol=0)


@EVERY
def test_a_draw_is_a_function_of_the_image_alone(name: str) -> None:
    """The same twice, and whatever images stand beside it; other draws are other functions."""
    method, x = made(name), images()
    network = network_of(method)
    with torch.no_grad():
        first, again, part_of = (logits_of(method, network, one) for one in (x, x, x[2:5]))
        other = logits_of(method, network, x, number=1)
    assert torch.equal(first, again)
    torch.testing.assert_close(part_of, first[2:5], atol=1e-12, rtol=0)
    if method.members_per_chain > 1:
        assert not torch.allclose(first, other)


@EVERY
def test_maps_keep_the_precision_that_the_engine_chose(name: str) -> None:
    """A factor or a mask in float32 would make every map after it one, and a GPU's step twice as long."""
    method, precisions = made(name), []
    stack = network_of(method).float().train()
    x = torch.cat([images().float()] * method.changes.repeats)

    def forward(network: Network, weights: Tensors, draw: Draw) -> Tensor:
        return method.forward(Peeking(network, precisions), weights, draw)

    with torch.autocast("cpu", torch.bfloat16):
        stack.run([0], stack.weights, x, forward, [Draw(torch.tensor(3))])
    assert precisions[0] == torch.float32  # the images
    assert set(precisions[1:]) == {torch.bfloat16}


class Peeking:
    """A network that keeps the precision of what its layers read."""

    def __init__(self, network: Network, precisions: list[torch.dtype]) -> None:
        self.network, self.images, self.precisions = network, network.images, precisions

    def __call__(self, weights: Tensors, passage: Passage = PLAIN, images: Tensor | None = None) -> Tensor:
        def layer(name: str, x: Tensor, weight: Tensor, apply: Apply) -> Tensor:
            self.precisions.append(x.dtype)
            return passage.layer(name, x, weight, apply)

        return self.network(weights, replace(passage, layer=layer), images)


@EVERY
def test_chains_in_a_stack_are_those_alone_and_go_on_bit_for_bit(name: str) -> None:
    method = made(name, **SHORT)
    whole, members = trained(chains(method), SETTINGS.epochs)
    alone = [trained([one], SETTINGS.epochs)[0][0] for one in chains(method)]
    half, _ = trained(chains(method), 2)
    on, _ = trained(half, SETTINGS.epochs - 2)
    for one, *others in zip(whole, alone, on, strict=True):
        for other in others:
            assert one.history == other.history
            for key, tensor in one.tensors.items():
                assert torch.equal(tensor, other.tensors[key]), key
    assert len(members) >= len(whole)
    assert all(np.isfinite(row["loss"]) for one in whole for row in one.history)


# Masks


def masked_values(name: str, number: int | None, **values: Any) -> dict[str, Tensor]:
    """What becomes of ones at every layer and term, by place."""
    method, seen = made(name, **values), {}

    class Network:
        images = torch.zeros(1)

        def __call__(self, weights: Any, passage: Passage) -> Tensor:
            for depth in (0.5, 1.0):
                term = Term(f"at {depth}", depth, skips=False, alone=False)
                seen[f"term {depth}"] = passage.term(term, torch.ones(64, 5, 6, 6))
            weight = torch.ones(3, 5, 1, 1)
            seen["layer"] = passage.layer("layer", torch.ones(64, 5, 6, 6), weight, lambda x, _: x)
            seen["weight"] = passage.layer("layer", torch.ones(1), torch.ones(40, 50), lambda _, w: w)
            return torch.zeros(1)

    method.forward(Network(), {}, Draw(torch.tensor(4), number))
    return seen


def test_masks_keep_as_many_values_as_they_should_and_what_is_left_is_scaled() -> None:
    dropped = masked_values("dropout", None, rate=0.25, per="value")["layer"]
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert abs((dropped > 0).double().mean() - 0.75) < 0.02
    weights = masked_values("dropconnect", None, rate=0.25)["weight"]
    assert weights.unique().tolist() == pytest.approx([0, 4 / 3])
    assert abs((weights > 0).double().mean() - 0.75) < 0.04
    swapped = masked_values("swapout", None, keep=0.4)
    for depth, chance in ((0.5, 0.7), (1.0, 0.4)):  # nothing is scaled
        assert set(swapped[f"term {depth}"].unique().tolist()) == {0.0, 1.0}
        assert abs(swapped[f"term {depth}"].mean() - chance) < 0.02


def test_dropconnect_drops_weights_of_all_layers_or_of_those_that_are_no_convolutions() -> None:
    layout = SPACE.weight_layout(EVERY_OPERATION)
    weights = {entry.name: torch.ones(entry.shape) for entry in layout.entries}
    layers = {entry.name for entry in layout.layers.values()}
    for setting, expected in (("all", layers), ("dense", {layout.last.name})):
        method = made("dropconnect", rate=0.5, layers=setting)
        drawn = method.changes.as_plain(weights, layout, Draw(torch.tensor(4), 0))
        assert {name for name, one in drawn.items() if not torch.equal(one, weights[name])} == expected


def test_channels_and_terms_are_dropped_whole_image_by_image() -> None:
    channels = masked_values("dropout", None, rate=0.5)["layer"]
    assert (channels == channels[:, :, :1, :1]).all()
    assert len(channels[:, :, 0, 0].unique(dim=0)) > 8
    terms = masked_values("stochastic_depth", None, keep=0.5)["term 1.0"]
    assert (terms == terms[:, :1, :1, :1]).all()
    assert 10 < (terms[:, 0, 0, 0] > 0).sum() < 54


def test_in_prediction_one_mask_serves_all_images() -> None:
    values = masked_values("dropout", 0, rate=0.5, per="value")["layer"]
    assert (values == values[:1]).all()
    assert 0.3 < (values[0] > 0).double().mean() < 0.7


def test_coins_fall_with_their_chance() -> None:
    for chance in (0.0, 0.1, 0.5, 1.0):
        found = draws.coins(torch.tensor(8), 40_001, chance).double()
        assert len(found) == 40_001
        assert abs(found.mean() - chance) < 4 * (chance * (1 - chance) / 40_000) ** 0.5 + 1e-9


# Members that are draws


def ensemble_of(*members: Any) -> Ensemble:
    return Ensemble(members, SPACE, Normalisation((4.0,), (6.0,)), tuple("abcdefghij"))


def test_draws_of_one_network_share_its_file_and_predict_as_before(tmp_path: Path) -> None:
    one, other = member_of("dropout"), member_of("point")
    ensemble = ensemble_of(one, other, replace(one, draw=1), replace(one, draw=7))
    ensemble.save(tmp_path)
    assert len(list(tmp_path.glob("0*.safetensors"))) == 2
    loaded = Ensemble.load(tmp_path)
    assert loaded.identity == ensemble.identity
    assert [member.draw for member in loaded.members] == [0, 0, 1, 7]
    assert loaded.parameters == one.weights.numel() + other.weights.numel()
    pictures = part().images[:5]
    before, after = (each.member_log_probabilities(pictures, device="cpu") for each in (ensemble, loaded))
    assert torch.equal(before, after)
    assert len({tuple(row.tolist()) for row in before[:, 0]}) == 4
    alone = ensemble_of(replace(one, draw=7)).member_log_probabilities(pictures, device="cpu")
    torch.testing.assert_close(alone[0], before[3], atol=1e-6, rtol=0)


PLAIN_DRAWS = [name for name, row in WEIGHTS.items() if row.make().changes.as_plain is not None]
IN_ONE_PASS = {"laplace", "mimo", "heads"}


def drawn_members(name: str) -> list[Member]:
    """Two networks, and three draws of each, in turn."""
    first = member_of(name, architectures=(0, 1, 1))
    moved = (draws.normal(draws.at(5, n), len(first.weights)) * 0.1 for n in range(2))
    networks = [replace(first, weights=first.weights + one) for one in moved]
    return [replace(network, draw=draw) for draw in (2, 0, 1) for network in networks]


def pass_by_pass(member: Member, x: Tensor) -> Tensor:
    """Log-probabilities of a member by the definition of its kind, in double precision."""
    stack = Stack([member.architecture], SPACE, member.kind.layout).double().eval()
    stack.put(0, member.weights, member.statistics)
    drawn, forward = Draw(draws.at(member.origin.key, member.draw), member.draw), member.kind.method.forward
    logits = stack.run([0], stack.weights, x, forward, [drawn] if forward else ())[0]
    if heads := len(member.kind.heads):
        logits = logits.chunk(heads, dim=1)[member.draw]
    return torch.log_softmax(logits, dim=1)


@pytest.mark.parametrize("name", PLAIN_DRAWS)
def test_draws_that_are_plain_networks_predict_as_pass_by_pass(name: str) -> None:
    """Beside members of other kinds; where they differ in the last layer alone, each network is run once."""
    members = drawn_members(name)
    mixed = [member_of("point"), *members[:3], member_of("swapout"), *members[3:]]
    pictures, units = part().images[:5], Normalisation((4.0,), (6.0,))
    engine = Engine(EngineSettings(device="cpu", precision="float64"))
    predict = MembersPredictor(mixed, SPACE, units, engine)
    x = units.on(engine.device, engine.dtype)(torch.from_numpy(pictures))
    with torch.no_grad():
        expected = torch.stack([pass_by_pass(member, x) for member in mixed])
    found, seen = predict.look(pictures)
    torch.testing.assert_close(predict(pictures), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert len(served(members)) == (2 if name in IN_ONE_PASS else 6)
    assert len(seen) == len(mixed)
    if name in IN_ONE_PASS:
        assert seen[1] is seen[3] is seen[6]
    first = members[0]
    adapted = with_statistics_of(pictures, first, SPACE, units, engine)
    stack, forward = Stack([first.architecture], SPACE, first.kind.layout).double(), first.kind.method.forward
    drawn = (Draw(draws.at(first.origin.key, first.draw), first.draw),) if forward else ()
    measured = measured_statistics(stack.train(), first.weights.double(), [x], engine, forward, drawn)
    torch.testing.assert_close(adapted.statistics, measured.float(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", PLAIN_DRAWS)
def test_draws_that_are_plain_networks_are_exported(name: str) -> None:
    ensemble, pictures = ensemble_of(*drawn_members(name), member_of("point")), part().images[:5]
    with torch.no_grad():
        exported = EnsembleNetwork(ensemble)
        probability = exported(torch.from_numpy(pictures))[0].numpy()
    assert len(exported.members.members) == (3 if name in IN_ONE_PASS else 7)
    expected = ensemble.predict_proba(pictures, device="cpu")
    np.testing.assert_allclose(probability, expected, atol=1e-5, rtol=0)


def test_masks_that_no_plain_network_has_are_not_exported() -> None:
    with pytest.raises(UraenasError, match="masked"):
        EnsembleNetwork(ensemble_of(member_of("swapout")))
    assert made("dropout", per="value").changes.as_plain is None


@pytest.mark.parametrize("wrong", [[], [[0, 0], [2, 0]], [[0, 0]], [[0, -1], [1, 0]], [[0], [1]], "x"])
def test_draws_that_do_not_fit_the_files_are_refused(tmp_path: Path, wrong: Any) -> None:
    one = member_of("dropout")
    ensemble_of(one, member_of("point"), replace(one, draw=1)).save(tmp_path)
    description = tmp_path / "ensemble.json"
    write_json(description, {**read_json(description), "draws": wrong})
    with pytest.raises(DamagedFile):
        Ensemble.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("dropout", {"rate": 1.0}, "rate = 1.0 is out of range"),
        ("dropout", {"per": "pixel"}, "unknown per 'pixel'"),
        ("dropout", {"repeats": 0}, "repeats = 0"),
        ("dropout", {"draws": 0}, "draws = 0"),
        ("dropconnect", {"layers": "some"}, "unknown layers 'some'"),
        ("dropconnect", {"rate": -0.1}, "rate = -0.1"),
        ("swapout", {"keep": 0.0}, "keep = 0.0"),
        ("stochastic_depth", {"keep": 1.5}, "keep = 1.5"),
    ],
)
def test_senseless_settings_are_refused(name: str, wrong: dict, said: str) -> None:
    with pytest.raises(UraenasError, match=said):
        WEIGHTS[name].make(wrong)
