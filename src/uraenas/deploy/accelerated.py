"""An ensemble whose first prediction on a CPU is made by ONNX Runtime already, where others wait until it pays."""

from dataclasses import replace

import torch

from uraenas.ensemble import Ensemble
from uraenas.ensemble.runtime import RuntimePredictor

DEVICES = ("auto", "cpu")


def accelerated(ensemble: Ensemble, threads: int = 0, looks: bool = False) -> Ensemble:
    """The same ensemble, whose predictions ONNX Runtime makes; as it is where there is a GPU.

    What `predict_proba` needs is made at once, or what `look` needs; the other by its first call.

    All that is made of predictions is as before, to within the last digits of float32: sets, votes, uncertainties,
    p-values. Members that are no plain networks, but masked ones, cannot be accelerated.
    """
    if torch.cuda.is_available():
        return ensemble
    found = replace(ensemble)
    facts = ensemble.members, ensemble.space, ensemble.normalisation
    runtime = RuntimePredictor(*facts, ensemble.plain_predictor("cpu"), ensemble.of_bytes, threads)
    runtime.session(looks)
    for device in DEVICES:
        found.predict_with(device, runtime)
    return found
