"""An installation made with DESTDIR, moved to where nothing was built for: GStreamer finds the plugin there, the plugin
its engine, the engine LibTorch, the converter the plugin, and all of them the default model.

Run by Meson (`meson test packaging`), which says where the build is.
"""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD, PREFIX, LIBDIR = (os.environ[name] for name in ("BUILD", "PREFIX", "LIBDIR"))
LIBTORCH = os.environ["LIBTORCH"]
VERSION = re.search(r"^ *version: '(.+)',$", (ROOT / "meson.build").read_text(), re.MULTILINE)[1]
ENGINE = "libnormalcrafter-engine.so"
SETTINGS = ("--device=cpu", "--dtype=float32", "--threads=1", "--max-resolution=64")


class Installation:
    def __init__(self, tree, registry):
        self.prefix = tree / PREFIX.lstrip("/")
        self.lib = self.prefix / LIBDIR
        self.plugins = self.lib / "gstreamer-1.0"
        self.converter = self.prefix / "bin" / "normalcrafter-convert"
        self.share = self.prefix / "share"
        # Nothing of the caller's: no variable that leads to the build or to a model.
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(tree), "LC_ALL": "C.UTF-8", "G_DEBUG": "fatal-criticals",
                            "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1", "GST_REGISTRY": str(registry)}

    def run(self, *command, status=0, **variables):
        """What it printed."""
        done = subprocess.run([str(c) for c in command], env=self.environment | variables, capture_output=True, text=True,
                              timeout=120, cwd=self.environment["HOME"])
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def convert(self, *arguments, status=0, **variables):
        return self.run(self.converter, *arguments, *SETTINGS, status=status, **variables)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    subprocess.run([os.environ["MESON"], "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tree], check=True)
    return Installation(tree, tmp_path_factory.mktemp("gstreamer") / "registry.bin")


@pytest.fixture
def moved(installed, tmp_path):
    """A copy that a test may break."""
    shutil.copytree(installed.prefix, tmp_path / PREFIX.lstrip("/"), symlinks=True)
    return Installation(tmp_path, tmp_path / "registry.bin")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    subprocess.run([os.environ["NORMALCRAFTER_WRITE_MODEL"], directory, "32"], check=True)
    return directory


def png(width, height, rows):
    """A picture's bytes: no library is needed to make it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
            + chunk(b"IEND", b""))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        rows = [bytes((7 * i + 5 * row + 40 * number) % 256 for i in range(64 * 3)) for row in range(48)]
        (folder / f"in-{number}.png").write_bytes(png(64, 48, rows))
    return folder / "in-%d.png"


def names(folder, pattern="*"):
    return {str(p.relative_to(folder)) for p in folder.glob(pattern) if not p.is_dir()}


def test_libraries_and_programs_are_there_and_nothing_of_the_tests(installed):
    assert names(installed.prefix / "bin") == {"normalcrafter-convert"}
    assert names(installed.lib, "**/*") == {"gstreamer-1.0/libgstnormalcrafter.so", ENGINE, f"{ENGINE}.0",
                                            f"{ENGINE}.{VERSION}", "pkgconfig/normalcrafter.pc"}


def test_every_public_header_is_there(installed):
    own = names(ROOT / "engine" / "include", "**/*.h")
    assert "normalcrafter/engine.h" in own
    assert names(installed.prefix / "include", "**/*.h") == own


def test_the_manual_page_is_there(installed):
    text = (installed.share / "man" / "man1" / "normalcrafter-convert.1").read_text()
    assert ".SH EXIT STATUS" in text


def test_links_between_the_pages_lead_somewhere(installed):
    folder = installed.share / "doc" / "gst-normalcrafter"
    pages = list(folder.glob("**/*.md"))
    assert {"README.md", "element.md", "troubleshooting.md", "convert.md"} <= {page.name for page in pages}
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_gst_inspect_shows_the_installed_plugin(installed):
    shown = installed.run("gst-inspect-1.0", "normalcrafter", GST_PLUGIN_PATH=str(installed.plugins))
    assert re.search(r"Filename\s+" + re.escape(str(installed.plugins / "libgstnormalcrafter.so")), shown)
    assert re.search(r"Version\s+" + re.escape(VERSION), shown)
    assert "max-resolution" in shown
    # The project has no address yet, and its users' reports are not for the authors of the network.
    assert re.search(r"Origin URL\s+Unknown package origin", shown)


def test_the_converter_finds_the_plugin_beside_it(installed):
    assert f"element normalcrafter: {VERSION}" in installed.run(installed.converter, "--version")
    shown = installed.run(installed.converter, "--help")
    assert "--overwrite" in shown
    assert "max-resolution" in installed.run(installed.converter, "--help-element")


def test_a_clip_is_converted(installed, model, pictures, tmp_path):
    installed.convert(pictures, tmp_path / "out-%d.png", f"--model={model}", "--fps=25")
    assert names(tmp_path, "*.png") == {"out-0.png", "out-1.png", "out-2.png"}


def test_the_default_model_is_the_installed_one(moved, pictures, tmp_path):
    demo = moved.share / "normalcrafter" / "models" / "demo"
    assert names(demo, "**/*") == names(ROOT / "models" / "demo", "**/*")
    told = moved.convert(pictures, tmp_path / "out.npy", "--fps=25")
    assert "demo model" in told
    assert (tmp_path / "out.npy").stat().st_size > 3 * 48 * 64 * 12
    shutil.rmtree(demo)
    assert "demo model is not installed" in moved.convert(pictures, tmp_path / "none.npy", "--fps=25", status=8)


def test_a_plugin_that_is_reached_by_a_link_finds_what_is_beside_it(installed, pictures, tmp_path):
    """As where /lib is a link to /usr/lib."""
    (tmp_path / "plugins").symlink_to(installed.plugins)
    told = installed.convert(pictures, tmp_path / "out.npy", "--fps=25", GST_PLUGIN_PATH=str(tmp_path / "plugins"),
                             GST_REGISTRY=str(tmp_path / "registry.bin"))
    assert "demo model" in told and (tmp_path / "out.npy").exists()


def test_an_engine_that_is_not_there_is_named(moved, model, pictures, tmp_path):
    for file in moved.lib.glob(f"{ENGINE}*"):
        file.unlink()
    told = moved.convert(pictures, tmp_path / "out.npy", f"--model={model}", "--fps=25", status=8)
    assert f"The engine library {ENGINE}.0 cannot be used" in told
    assert "NORMALCRAFTER_ENGINE" in told


def without_run_path(installation):
    """The engine as it is where LibTorch has been moved since it was built."""
    file = installation.lib / f"{ENGINE}.{VERSION}"
    content, run_path = file.read_bytes(), f"{LIBTORCH}/lib".encode()
    assert run_path in content
    file.write_bytes(content.replace(run_path, b"/nowhere".ljust(len(run_path), b"/")))


def test_a_libtorch_that_was_moved_is_found_by_its_variable(moved, model, pictures, tmp_path):
    without_run_path(moved)
    arguments = (pictures, tmp_path / "out.npy", f"--model={model}", "--fps=25")
    told = moved.convert(*arguments, status=8)
    assert "libtorch" in told and "cannot open shared object file" in told
    assert "Set the environment variable NORMALCRAFTER_LIBTORCH to the directory of LibTorch" in told
    moved.convert(*arguments, NORMALCRAFTER_LIBTORCH=LIBTORCH)
    assert (tmp_path / "out.npy").exists()


def test_a_directory_without_libtorch_is_named(installed, model, pictures, tmp_path):
    told = installed.convert(pictures, tmp_path / "out.npy", f"--model={model}", "--fps=25", status=8,
                             NORMALCRAFTER_LIBTORCH=str(tmp_path))
    assert f"NORMALCRAFTER_LIBTORCH names {tmp_path}, where there is no lib/libtorch_cpu.so" in told


def test_another_release_of_libtorch_is_refused_with_both_versions(installed, model, pictures, tmp_path):
    """A library that says that it is LibTorch 1.2."""
    (tmp_path / "lib").mkdir()
    source = 'extern "C" unsigned long long aoti_torch_abi_version() { return 1ull << 56 | 2ull << 48; }\n'
    subprocess.run(["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", tmp_path / "lib" / "libtorch_cpu.so"], input=source,
                   text=True, check=True)
    told = installed.convert(pictures, tmp_path / "out.npy", f"--model={model}", "--fps=25", status=8,
                             NORMALCRAFTER_LIBTORCH=str(tmp_path))
    assert re.search(r"The engine is built for LibTorch \d+\.\d+, but " + re.escape(str(tmp_path)) + " comes with LibTorch 1.2",
                     told)


@pytest.mark.parametrize("example", ["embed", "live_capture"])
def test_an_example_compiles_where_it_is_copied_to(installed, tmp_path, example):
    """By the page's command."""
    page = (installed.share / "doc" / "gst-normalcrafter" / "docs" / "applications.md").read_text()
    source, = (installed.share / "doc" / "gst-normalcrafter" / "examples").glob(f"*/{example}.cc")
    shutil.copy(source, tmp_path)
    command = re.search(rf"^c\+\+ .*\b{example}\.cc.*$", page, re.MULTILINE)[0]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert "--model" in installed.run(tmp_path / example, "--help")


def test_a_program_compiles_against_the_engine_and_runs(installed, model, tmp_path):
    found = installed.run("pkg-config", "--cflags", "--libs", "normalcrafter", PKG_CONFIG_SYSROOT_DIR=installed.environment["HOME"],
                          PKG_CONFIG_PATH=str(installed.lib / "pkgconfig"))
    program = tmp_path / "raw-normals"
    installed.run("c++", "-std=c++20", ROOT / "examples" / "raw_normals.cc", "-o", program, *found.split())
    library_path = str(installed.lib)
    assert VERSION in installed.run(program, "--version", LD_LIBRARY_PATH=library_path)
    frames = bytes(range(256)) * (64 * 64 * 3 // 256) * 2
    done = subprocess.run([program, model, "64", "64"], input=frames, capture_output=True, timeout=120,
                          env=installed.environment | {"LD_LIBRARY_PATH": library_path})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == len(frames)
