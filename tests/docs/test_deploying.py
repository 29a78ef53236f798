"""What the page on production tells to do with a picture is what `predict` does."""

import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from uraenas.data.pictures import read_image

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"


def test_a_picture_is_prepared_as_predict_prepares_it(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    on_its_side = Image.Exif()
    on_its_side[274] = 6
    Image.fromarray(pixels).save(photo := tmp_path / "photo.png", exif=on_its_side)
    told = re.search(r"^upright = .*\nimage = .*$", PAGE.read_text(), re.MULTILINE)
    assert told is not None
    found = {"np": np, "Image": Image, "ImageOps": ImageOps}
    exec(told[0].replace("photo.png", str(photo)), found)
    np.testing.assert_array_equal(found["image"], read_image(photo, 32, 3))
