"""scripts/package makes a package of a build, and what is unpacked from it runs."""

import os
import re
import shutil
import subprocess

import pytest
from test_installation import BUILD, LIBTORCH, ROOT, VERSION, Installation

if not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture"))):
    pytest.skip("Debian's tools are not installed", allow_module_level=True)


def package(*arguments, status=0, folder=None):
    done = subprocess.run([ROOT / "scripts" / "package", "--libtorch", LIBTORCH, *map(str, arguments)], text=True,
                          capture_output=True, timeout=250, cwd=folder, env=os.environ | {"DEBFULLNAME": "A Name", "DEBEMAIL": "a@name"})
    assert done.returncode == status, done.stdout + done.stderr
    return (done.stdout if status == 0 else done.stderr).strip()


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    """Made from a folder of its own, which relative names are looked for in."""
    folder = tmp_path_factory.mktemp("caller")
    made = package("--build", os.path.relpath(BUILD, folder), "--output=made", folder=folder)
    assert made.startswith(f"{folder}/made/")
    return made


def field(deb, name):
    return subprocess.run(["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def test_its_fields_say_what_it_is_and_needs(deb):
    assert field(deb, "Package") == "gst-normalcrafter"
    assert field(deb, "Version") == f"{VERSION}-1"
    assert field(deb, "Maintainer") == "A Name <a@name>"
    depends = {entry.split()[0] for entry in field(deb, "Depends").split(", ")}
    assert {"libc6", "libstdc++6", "gstreamer1.0-plugins-base"} <= depends
    assert any(re.match(r"libgstreamer1.0-0|libgstreamer1.0-0t64", entry) for entry in depends)
    assert any(entry.startswith("libopenexr") for entry in depends)
    assert not any("torch" in entry for entry in depends)
    assert "NORMALCRAFTER_LIBTORCH" in field(deb, "Description")


def test_what_is_unpacked_runs(deb, tmp_path):
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path / "tree"], check=True)
    installed = Installation(tmp_path / "tree", tmp_path / "registry.bin")
    assert f"element normalcrafter: {VERSION}" in installed.run(installed.converter, "--version")
    assert (installed.share / "man" / "man1" / "normalcrafter-convert.1.gz").exists()
    assert "Apache" in (installed.share / "doc" / "gst-normalcrafter" / "copyright").read_text()


def test_its_checksums_are_those_of_its_files(deb, tmp_path):
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tmp_path], check=True)
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=tmp_path, check=True)


def test_libtorch_is_not_bundled_where_the_engine_would_not_look(tmp_path):
    told = package("--build", BUILD, "--output", tmp_path, "--bundle-libtorch", status=1)
    assert "configure it with -Dlibtorch-runtime=" in told


def test_options_that_it_does_not_know_are_refused():
    assert "usage: scripts/package" in package("--bundle", status=2)
