"""The suite made of CIFAR-10's test set is the release's, byte for byte, where no chance is in play."""

import hashlib

import pytest

from uraenas.shifts import SHIFTS, corrupt
from uraenas.shifts.layout import RELEASE_MD5
from uraenas.shifts.suite import check_suite, open_suite, write_suite

pytestmark = pytest.mark.data

IDENTICAL = [name for name, shift in SHIFTS.items() if not shift.random and name != "jpeg_compression"]

# sha256 of the five severities of the first 100 test images, taken when the whole files had the release's md5.
FIRST_100 = {
    "defocus_blur": "579040be90b594ac24e1ced5520d0317209937fde029a4e92b6f14711b2f9750",
    "zoom_blur": "543972053facee557a9a50585a4cdbed86b14f74d193669f484286afa91f8eb6",
    "brightness": "1e8efb6194b2508de39ec6b0f1d401408430d6d513603330eec5ffcc92e6a05b",
    "contrast": "5fd62631dbe9b24a9e67fbf0ebd59534dc5e567fcf68b0211235951c455a24bf",
    "pixelate": "52f32cf274f95940cba214bc3aec0710f2db819ad65ddb54fb151aca629150da",
    "gaussian_blur": "fc878c2aca64706711ccdf8ad91667b5f2cfddf44a039dd450352f7079434c98",
    "saturate": "e99ae82f9b956e623b2f821f65d9b60da3169f2deef4baeb80dc18c1b1e74271",
}


def test_first_100_images_are_the_releases(cifar10_test):
    images, _ = cifar10_test
    for name in IDENTICAL:
        outputs = b"".join(corrupt(images[:100], name, s, seed=0).tobytes() for s in range(1, 6))
        assert hashlib.sha256(outputs).hexdigest() == FIRST_100[name], name


def test_deterministic_files_have_the_releases_md5(cifar10_test, tmp_path):
    checksums = write_suite(*cifar10_test, tmp_path, only=IDENTICAL)
    assert len(checksums) == 8
    assert checksums == {name: RELEASE_MD5[name] for name in checksums}
    assert set(check_suite(tmp_path).values()) == {"identical"}
    assert len(open_suite(tmp_path)) == 35
