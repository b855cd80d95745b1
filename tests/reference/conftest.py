"""Options, markers and the closing table of the reference's tests."""

import os
import pathlib

import pytest
import torch

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--build", default=os.environ.get("NORMALCRAFTER_BUILD", ROOT / "build"),
                     help="build directory of the programs under test (default: $NORMALCRAFTER_BUILD or build/)")


def pytest_configure(config):
    config.addinivalue_line("markers", "live: a few comparisons with the engine that every test run makes")
    config.addinivalue_line("markers", "slow: the comparisons that a quick run leaves out")
    config.stash[ROWS] = {}
    torch.set_num_threads(min(2, os.cpu_count() or 1))


@pytest.fixture(scope="session")
def workshop(request):
    return harness.Workshop(request.config.getoption("--build"))


@pytest.fixture
def record(request):
    """record(case name, column, value): for the closing table."""
    rows = request.config.stash[ROWS]
    return lambda name, column, value: rows.setdefault(name, {}).__setitem__(column, value)


COLUMNS = ("raw", "raw-f32", "unit", "unit-f32", "unit-mean", "codes", "codes-differing")


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[ROWS]
    if not rows:
        return
    write = terminalreporter.write_line
    terminalreporter.section("engine against the float64 reference")
    write("raw: largest difference before renormalising; unit: after it; -f32: the float32 reference's own;")
    write("codes: largest difference of the element's 8-bit output; codes-differing: share of samples")
    write(f"{'case':24s}" + "".join(f"{c:>16s}" for c in COLUMNS))
    for name, row in rows.items():
        write(f"{name:24s}" + "".join(f"{_shown(row.get(c)):>16s}" for c in COLUMNS))
    worst = {c: max((r[c] for r in rows.values() if c in r), default=None) for c in COLUMNS}
    large = {c: max((r[c] for r in rows.values() if c in r and r.get("large")), default=None) for c in COLUMNS}
    write(f"{'worst, sides >= 128':24s}" + "".join(f"{_shown(large[c]):>16s}" for c in COLUMNS))
    write(f"{f'worst of {len(rows)}':24s}" + "".join(f"{_shown(worst[c]):>16s}" for c in COLUMNS))


def _shown(value):
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2g}"
