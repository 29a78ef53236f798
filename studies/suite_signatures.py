"""Does a network find a suite as hard as networks find the released CIFAR-10-C?

    python studies/suite_signatures.py RUN [--method drnas]

Errors per corruption and severity of one method of a run, beside those of a WRN-28-10 with standard augmentation on the
official files (rounded to whole per cent), their rank correlation, and three signatures of the release. Ends with 1
where the run lacks one of these.
"""

import argparse
import sys

from scipy.stats import spearmanr

from uraenas import Run
from uraenas.evaluation import sizes_of

REFERENCE = {
    "gaussian_noise": (22, 42, 61, 67, 72),
    "shot_noise": (15, 24, 47, 55, 66),
    "impulse_noise": (17, 31, 43, 60, 73),
    "defocus_blur": (5, 7, 11, 23, 47),
    "glass_blur": (47, 44, 43, 57, 54),
    "motion_blur": (10, 16, 26, 25, 35),
    "zoom_blur": (12, 16, 23, 30, 42),
    "snow": (10, 20, 16, 20, 25),
    "frost": (11, 17, 27, 29, 41),
    "fog": (6, 6, 8, 10, 26),
    "brightness": (5, 6, 6, 7, 9),
    "contrast": (6, 8, 10, 16, 47),
    "elastic_transform": (10, 10, 14, 21, 27),
    "pixelate": (8, 14, 20, 40, 59),
    "jpeg_compression": (14, 20, 22, 26, 30),
}
SIGNATURES = (("glass_blur", 3, 1), ("snow", 3, 2), ("motion_blur", 4, 3))  # the first severity is no harder


def errors(run: Run, method: str) -> dict[str, list[float]]:
    """Per cent wrong at severities 1 … 5, of all members together; a KeyError where one was not measured."""
    rows = run.metrics().rows
    members = sizes_of(rows)[method]
    found = {
        (row.shift, row.severity): 100 * (1 - row.value)
        for row in rows
        if (row.method, row.metric, row.calibration, row.members) == (method, "accuracy", "raw", members)
    }
    return {name: [found[name, severity] for severity in range(1, 6)] for name in REFERENCE}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("--method", default="drnas")
    given = parser.parse_args()
    try:
        found = errors(Run(given.run), given.method)
    except KeyError as error:
        parser.error(f"{given.run} was not evaluated on all of CIFAR-10-C, or has no such method: {error}")
    for name, row in found.items():
        ours, theirs = (" ".join(f"{value:5.1f}" for value in values) for values in (row, REFERENCE[name]))
        print(f"{name:18} {ours}   reference {theirs}")
    cells = [[v for row in table.values() for v in row] for table in (found, REFERENCE)]
    means = [[sum(row) / 5 for row in table.values()] for table in (found, REFERENCE)]
    print(f"rank correlation: {spearmanr(*cells)[0]:.3f} over cells, {spearmanr(*means)[0]:.3f} over means")
    for name, easier, harder in SIGNATURES:
        print(f"{name}: {found[name][easier - 1]:.1f} at {easier}, {found[name][harder - 1]:.1f} at {harder}")
    sys.exit(any(found[name][easier - 1] > found[name][harder - 1] for name, easier, harder in SIGNATURES))


if __name__ == "__main__":
    main()
