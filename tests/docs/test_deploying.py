"""What the page on production tells to do with a picture is what `predict` does."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from uraenas.data.pictures import read_image

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_picture_is_prepared_as_predict_prepares_it(tmp_path: Path, ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    on_its_side = Image.Exif()
    on_its_side[274] = 6
    large = Image.fromarray(pixels).resize((900, 600))
    large.save(photo := tmp_path / f"photo.{ending}", exif=on_its_side)
    told = re.search(r"^picture = (?:.*\n)+?image = .*$", PAGE.read_text(), re.MULTILINE)
    assert told is not None
    found = {"np": np, "Image": Image, "ImageOps": ImageOps}
    exec(told[0].replace("photo.jpg", str(photo)), found)
    np.testing.assert_array_equal(found["image"], read_image(photo, 32, 3))
    in_grey = re.search(r"Image\.fromarray\(image\)[^`]*", PAGE.read_text())
    assert in_grey is not None
    np.testing.assert_array_equal(eval(in_grey[0], found), read_image(photo, 32, 1)[..., 0])
