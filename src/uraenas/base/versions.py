"""What a result may depend on besides its settings: versions and hardware."""

import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def version_of(package: str) -> str:
    """The version, also where the package is run from a source tree and has none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def environment(device: "torch.device") -> dict[str, Any]:
    """What environment.json holds."""
    import torch  # not above: whoever asks for a version should not wait for it

    return {
        "uraenas": version_of("uraenas"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version_of("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }
