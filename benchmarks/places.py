"""Training and evaluation of the demo's ensembles in this process and in worker processes, in turn.

    python benchmarks/places.py [--on processes:2] [--rounds 3] [--epochs 4]

Wall seconds need idle cores. Processor seconds hardly do: of this process, and of all workers for their units.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.run.places import place_of

METHODS = "deep-ensemble,random-ensemble"


def timed(out: Path, place: str, epochs: int, search_of: Path) -> dict[str, float]:
    """One run with a search that is there already."""
    changes = {
        "methods": METHODS,
        "train.epochs": epochs,
        "evaluate.references": False,
        "evaluate.bootstrap": 200,
    }
    pipeline = Pipeline.start(out, preset("digits", changes), search_of=Pipeline.resume(search_of).run)
    pipeline.place = place_of(place)
    begun, used = time.monotonic(), time.process_time()
    with pipeline.run.held(), closing(pipeline.place):
        pipeline.train(pipeline.search())
        pipeline.evaluate()
        seconds, own = time.monotonic() - begun, time.process_time() - used
    workers = [spent for item, spent in pipeline.run.costs.read().items() if item.startswith("workers/")]
    theirs = [spent["cpu_seconds"] for spent in workers]
    return {"seconds": seconds, "processor": own + sum(theirs), "longest": own + max(theirs, default=0.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", default="processes:2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {"local": [], options.on: []}
    with tempfile.TemporaryDirectory() as folder:
        searched = Path(folder) / "searched"
        changes = {"methods": METHODS, "search.epochs": 2, "train.epochs": options.epochs}
        Pipeline.start(searched, preset("digits", changes)).search()
        for number in range(options.rounds):
            for place, rows in found.items():
                rows.append(timed(Path(folder) / f"{place}-{number}", place, options.epochs, searched))
                print(json.dumps({"on": place, "load": os.getloadavg()[0], **rows[-1]}), flush=True)
            ours, theirs = (Path(folder) / f"{place}-{number}" / "metrics.json" for place in found)
            assert ours.read_bytes() == theirs.read_bytes()
    for place, rows in found.items():
        for unit in rows[0]:
            values = [row[unit] for row in rows]
            print(f"{place} {unit}: {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    main()
