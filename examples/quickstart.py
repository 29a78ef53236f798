"""Fit a small joint ensemble on scikit-learn's digits, and ask it what it does not know.

python examples/quickstart.py        (half a minute on two cores)
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from uraenas import UraeNAS

digits = load_digits()
train_images, test_images, train_labels, test_labels = train_test_split(
    digits.images, digits.target, test_size=0.3, stratify=digits.target, random_state=0
)

classifier = UraeNAS(
    members=4,
    settings={"train.sampled.architectures": 2},
    value_range=(0, 16),  # what the arrays do not say of themselves
)
classifier.fit(train_images, train_labels)
print(f"{classifier.ensemble_}")
print(f"test accuracy: {classifier.score(test_images, test_labels):.3f}")

noise = np.random.default_rng(0).uniform(0, 16, size=(200, 8, 8))
for name, images in (("digits", test_images), ("noise", noise)):
    parts = classifier.uncertainty(images)
    means = ", ".join(f"{source} {values.mean():.3f}" for source, values in parts.items())
    print(f"mean uncertainty in nats on {name}: {means}")
