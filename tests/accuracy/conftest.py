"""Where the demo model's recipe and the programs under test are."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "recipe"))


def pytest_addoption(parser):
    parser.addoption("--build", default=os.environ.get("NORMALCRAFTER_BUILD", ROOT / "build"),
                     help="build directory of the plugin under test (default: $NORMALCRAFTER_BUILD or build/)")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: what a quick run leaves out")


@pytest.fixture
def fast_forms(monkeypatch):
    """A function that puts the trainer's forms in place, for one test."""
    import network
    import torch
    for layer in (network.ResnetBlock2D, network.SpatioTemporalResBlock, network.Attention, torch.nn.Conv3d):
        monkeypatch.setattr(layer, "forward", layer.forward)
    return network.use_fast_forms


@pytest.fixture(scope="session", autouse=True)
def plugin(request):
    """The plugin of the build directory and no other, and a registry that leaves the user's own alone."""
    build = pathlib.Path(request.config.getoption("--build")).resolve()
    os.environ["GST_PLUGIN_PATH"] = str(build / "gst")
    os.environ["GST_REGISTRY"] = str(build / "gst-registry.bin")
    return build
