"""Members of a stack side by side in threads: the same bits as one after another, on any number of cores."""

import threading

import numpy as np
import pytest
import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings, Wrapping
from uraenas.engine.gradients import PlainGradients
from uraenas.engine.workers import LARGE, Workers
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.train import StackOfChains, Training
from uraenas.spaces import CellSpace, Shape, Stack, Tensors
from uraenas.spaces.networks import Draw, Network
from uraenas.weights import Langevin

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 3))
GENOTYPES = [
    SPACE.architecture(indices)
    for indices in ((3, 2, 3, 1, 4, 3), (2, 0, 3, 3, 2, 1), (3,) * 6, (1, 4, 3, 2, 0, 1))
]


def engine_of(workers: int | None) -> Engine:
    """A CPU's engine with so many workers; None: all members in one pass, as on a GPU."""
    engine = Engine(EngineSettings(device="cpu", precision="float32"))
    engine.workers = Workers(workers) if workers else None
    return engine


def loader(engine: Engine) -> Loader:
    random = np.random.default_rng(0)
    part = LabelledImages(random.integers(0, 256, (24, 8, 8, 1), dtype=np.uint8), np.arange(24) % 3)
    return Loader(part, Normalisation.of(part.images), 8, 1, True, engine.device, engine.dtype)


def fresh_stack() -> Stack:
    stack = Stack(GENOTYPES, SPACE)
    stack.initialise(list(range(len(GENOTYPES))))
    return stack.train()


def step(workers: int | None, wrapping: Wrapping | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, gradient and statistics of one step."""
    engine, stack = engine_of(workers), fresh_stack()
    images = loader(engine)
    gradients = PlainGradients(stack, images, engine, wrapping or Wrapping())
    found = gradients(images.draw([5, 6, 7, 8], 0), torch.tensor(1), torch.tensor(4))
    return *found, stack.statistics


def halved(network: Network, weights: Tensors, draw: Draw) -> Tensor:
    """A forward of a kind of weights: logits halved, with noise of its own key."""
    logits = network(weights)
    return logits / 2 + draws.normal(draw.key, logits.numel()).view_as(logits)


WRAPPED = Wrapping(forward=halved, draws=[Draw(torch.tensor(n)) for n in range(len(GENOTYPES))])


@pytest.mark.parametrize("wrapping", [None, WRAPPED], ids=["plain", "wrapped"])
def test_a_step_has_the_same_bits_on_any_number_of_workers(wrapping: Wrapping | None) -> None:
    alone = step(1, wrapping)
    for workers in (2, 4):
        for found, expected in zip(step(workers, wrapping), alone, strict=True):
            assert torch.equal(found, expected), workers


@pytest.mark.parametrize("wrapping", [None, WRAPPED], ids=["plain", "wrapped"])
def test_a_step_member_by_member_is_that_of_one_pass_over_all(wrapping: Wrapping | None) -> None:
    for found, expected in zip(step(2, wrapping), step(None, wrapping), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("workers", [None, 2])
def test_a_penalty_has_its_slope_in_each_members_gradient_and_is_told_how_far_training_is(
    workers: int | None,
) -> None:
    """At step 4 of 16 the slope of progress · ½ ‖w‖² is w / 4."""

    def penalty(weights: Tensors, progress: Tensor) -> Tensor:
        return progress * torch.stack([0.5 * one.square().sum() for one in weights.values()]).sum()

    (losses, gradient, _), (plain, without, _) = (
        step(workers, Wrapping(penalty=penalty, steps=16)),
        step(workers),
    )
    torch.testing.assert_close(gradient - without, fresh_stack().weights.detach() / 4, rtol=1e-4, atol=1e-5)
    assert torch.equal(losses, plain)  # which tell whether a member diverges


def test_predictions_have_the_same_bits_on_any_number_of_workers_and_no_gradient() -> None:
    images = draws.normal(draws.at(3, 0), 20 * 64).view(20, 1, 8, 8)
    stack = fresh_stack().eval()
    found = [engine_of(workers).predictor(stack)[0](images) for workers in (1, 2, 4)]
    assert found[0].shape == (len(GENOTYPES), 20, 3)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    assert not any(logits.requires_grad for logits in found)
    with torch.no_grad():
        torch.testing.assert_close(found[0], stack(images), rtol=1e-5, atol=1e-6)


def test_chains_have_the_same_bits_on_any_number_of_workers_and_threads() -> None:
    """Some epochs of exploring and sampling; PyTorch's own number of threads is as it was afterwards."""
    method = Langevin(cycles=1, samples=1, exploration=0.5)
    before, ends = torch.get_num_threads(), []
    try:
        for workers in (1, 2, 4):
            torch.set_num_threads(workers)
            engine = engine_of(workers)
            specs = [ChainSpec("sampled", method, n, genotype) for n, genotype in enumerate(GENOTYPES)]
            chains = [initial_chain(spec, SPACE, 0) for spec in specs]
            stack = StackOfChains(chains, Training(TrainSettings(epochs=2), SPACE, loader(engine), engine, 0))
            while not stack.done:
                stack.advance()
            ends.append([state.tensors for state in stack.states()])
            assert torch.get_num_threads() == workers
    finally:
        torch.set_num_threads(before)
    for other in ends[1:]:
        for one, two in zip(ends[0], other, strict=True):
            assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_operations_get_one_thread_but_where_one_network_has_a_large_batch() -> None:
    workers, before = Workers(3), torch.get_num_threads()
    for pixels, threads in ((0, 1), (LARGE - 1, 1), (LARGE, 3)):
        with workers.threads(pixels):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), workers.threads(LARGE):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_members_are_spread_over_threads_that_each_compute_on_one() -> None:
    """All workers are at work at once: each waits for the others."""
    before, workers = torch.get_num_threads(), Workers(3)
    meeting = threading.Barrier(3)

    def work(m: int) -> tuple[int, int, int]:
        meeting.wait()
        return m, threading.get_ident(), torch.get_num_threads()

    found = workers.each(work, range(3))
    assert [m for m, _, _ in found] == [0, 1, 2]
    assert len({thread for _, thread, _ in found}) == 3
    assert {threads for _, _, threads in found} == {1}
    assert torch.get_num_threads() == before
    assert workers.each(lambda m: m * m, range(5)) == [0, 1, 4, 9, 16]


def test_an_error_in_a_member_is_not_lost() -> None:
    def work(m: int) -> int:
        return 1 // (m - 2)

    for count in (1, 2):
        with pytest.raises(ZeroDivisionError):
            Workers(count).each(work, range(4))
