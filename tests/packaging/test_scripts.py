"""scripts/setup, test and demo, as far as nothing is installed and nothing built: what they call is a stand-in."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    file.chmod(0o755)


@pytest.fixture
def project(tmp_path):
    """A project of scripts alone, a LibTorch beside it, and a Meson that writes down what it is called with and fails."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    for part in ("tests/reference", "tests/convert", "tests/cluster", "models/recipe"):
        (project / part).mkdir(parents=True)
        shutil.copy(ROOT / part / "requirements.txt", project / part)
    for name in ("apt-get", "sudo"):
        program(tmp_path / "bin" / name, "exit 1")
    program(tmp_path / "bin" / "dpkg-query", "printf installed")
    program(tmp_path / "bin" / "pkg-config", "echo 1.24")
    program(project / ".venv" / "bin" / "python", "exit 0")
    program(project / ".venv" / "bin" / "meson", '[ "$1" != --version ] || { echo 1.9; exit; }',
            f"printf '%s\\n' \"$@\" > '{tmp_path}/meson'", "exit 1")
    for name in ("include/ATen/ATen.h", "lib/libtorch_cpu.so", "include/torch/headeronly/version.h"):
        file = tmp_path / "libtorch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#define TORCH_VERSION_MAJOR 99\n#define TORCH_VERSION_MINOR 0\n")
    return project


def call(project, script, *arguments, **variables):
    """From the folder that the project is in."""
    environment = {name: value for name, value in os.environ.items() if name != "LIBTORCH"}
    environment |= {"PATH": f"{project.parent}/bin:{os.environ['PATH']}", **variables}
    return subprocess.run([f"project/scripts/{script}", *arguments], cwd=project.parent, env=environment, text=True,
                          capture_output=True, timeout=60)


@pytest.mark.parametrize("script, arguments, variables", [
    ("setup", ["--libtorch", "libtorch"], {}),
    ("setup", ["--libtorch=./libtorch"], {}),
    ("setup", [], {"LIBTORCH": "libtorch"}),
    ("test", ["--fast", "--libtorch", "libtorch"], {}),
    ("test", ["--fast", "--libtorch=libtorch"], {}),
])
def test_a_relative_libtorch_is_the_callers(project, script, arguments, variables):
    done = call(project, script, *arguments, **variables)
    assert "Meson could not configure" in done.stderr, done.stderr
    assert f"-Dlibtorch={project.parent}/libtorch" in (project.parent / "meson").read_text().splitlines()


def test_the_demos_help_takes_no_python(tmp_path):
    for name in ("bash", "cat", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run([ROOT / "scripts" / "demo", "--help"], env={"PATH": str(tmp_path)}, text=True, capture_output=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    for word in ("usage: scripts/demo", "VIDEO", "--output", "--frames", "PROPERTY=VALUE"):
        assert word in done.stdout
