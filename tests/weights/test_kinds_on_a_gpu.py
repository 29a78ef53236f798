"""Every kind that wraps the network, on a GPU: its step is captured, and its draws are those of a CPU."""

from dataclasses import replace

import pytest
import torch
from small_networks import (
    EVERY_OPERATION,
    SEED,
    SETTINGS,
    SHORT,
    SPACE,
    WRAPPED,
    chains,
    loader,
    made,
    member_of,
    part,
)

from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Kind, Member, MembersPredictor, Origin
from uraenas.ensemble.networks import served, wide
from uraenas.learning.train import StackOfChains, Training

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
EVERY = pytest.mark.parametrize("name", WRAPPED)


@EVERY
def test_a_captured_step_moves_chains_as_a_cpu_does(name: str) -> None:
    """A step that cannot be captured warns, and warnings are errors."""
    ends = []
    for device in ("cpu", "cuda"):
        engine = Engine(EngineSettings(device=device, precision="float64"))
        images = part()
        own = Loader(
            images, Normalisation.of(images.images), SETTINGS.batch, 1, False, engine.device, engine.dtype
        )
        stack = StackOfChains(chains(made(name, **SHORT)), Training(SETTINGS, SPACE, own, engine, SEED))
        for _ in range(SETTINGS.epochs):  # eight steps, of which five are replayed
            stack.advance()
        ends.append([state.tensors["weights"].cpu() for state in stack.states()])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in WRAPPED if made(name).changes.as_plain])
def test_own_kernels_predict_with_draws_that_are_plain_networks(name: str) -> None:
    """Two draws, in one network of twice as many logits where they share one."""
    space, kind = replace(SPACE, channels=16), Kind.of(name, made(name))
    weights = kind.layout(space.weight_layout(EVERY_OPERATION)).initial(SEED)
    statistics = space.statistics_layout(EVERY_OPERATION).initial()
    first = Member(EVERY_OPERATION, weights, statistics, Origin("any", 1, 0, 2), kind)
    members = [first, replace(first, draw=1)]
    found = []
    for device, precision in (("cpu", "float32"), ("cuda", "bfloat16")):
        engine = Engine(EngineSettings(device=device, precision=precision))
        assert not engine.why_no_kernels(wide(space, len(served(members)[0])))
        predict = MembersPredictor(members, space, Normalisation((4.0,), (6.0,)), engine)
        found.append(predict(part().images[:5]).exp())
    torch.testing.assert_close(*found, atol=0.03, rtol=0)


@EVERY
def test_a_draw_is_the_same_function_on_a_cpu(name: str) -> None:
    member, images = member_of(name), part().images[:5]
    members = [member, replace(member, draw=1)]
    normalisation = loader().normalise
    found = []
    for device in ("cpu", "cuda"):
        engine = Engine(EngineSettings(device=device, precision="float32"))
        units = Normalisation(tuple(normalisation.mean.tolist()), tuple(normalisation.deviation.tolist()))
        found.append(MembersPredictor(members, SPACE, units, engine)(images))
    torch.testing.assert_close(*found, atol=1e-3, rtol=0)
