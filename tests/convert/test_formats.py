"""Every output holds what the element gave, as readers of others see it."""

import numpy as np
import pytest
from conftest import HEIGHT, WIDTH, decoded, ffmpeg, probed, raw_output

TENSOR, RGB8, RGB16 = "other/tensors,format=static", "video/x-raw,format=RGB", "video/x-raw,format=RGBA64_LE"


def test_npy_is_the_elements_float_output(convert, clip):
    convert(clip, "out.npy")
    vectors = np.load("out.npy")
    assert vectors.dtype == np.float32
    assert vectors.shape == (30, HEIGHT, WIDTH, 3)
    np.testing.assert_array_equal(vectors, raw_output(convert, clip, TENSOR, (3,), np.float32))
    assert np.abs(np.linalg.norm(vectors, axis=-1) - 1).max() < 1e-5


def test_npz_has_the_vectors_and_the_times(convert, clip):
    convert(clip, "out.npy")
    convert(clip, "out.npz")
    with np.load("out.npz") as archive:
        assert set(archive.files) == {"normals", "times"}
        np.testing.assert_array_equal(archive["normals"], np.load("out.npy"))
        np.testing.assert_allclose(archive["times"], np.arange(30) / 25, atol=1e-9)


def test_npz_passes_the_test_of_another_zip_program(convert, clip):
    import zipfile
    convert(clip, "out.npz")
    with zipfile.ZipFile("out.npz") as archive:
        assert archive.testzip() is None


def test_png_of_8_bits_is_the_elements_8_bit_output(convert, clip):
    convert(clip, "out/%03d.png")
    np.testing.assert_array_equal(decoded("out/%03d.png"), raw_output(convert, clip, RGB8, (3,), np.uint8))


def test_png_of_16_bits_is_the_elements_16_bit_output(convert, clip):
    convert(clip, "out/%03d.png", "--bits=16")
    raw = raw_output(convert, clip, RGB16, (4,), "<u2")[..., :3]
    np.testing.assert_array_equal(decoded("out/%03d.png", "rgb48le", "<u2"), raw)


def test_png_of_16_bits_reads_in_opencv_too(convert, clip):
    cv2 = pytest.importorskip("cv2")
    convert(clip, "out/%03d.png", "--bits=16", "--frames=2")
    picture = cv2.imread("out/001.png", cv2.IMREAD_UNCHANGED)
    assert picture.dtype == np.uint16
    np.testing.assert_array_equal(picture[..., ::-1], decoded("out/%03d.png", "rgb48le", "<u2")[1])


def read_exr(file):
    openexr = pytest.importorskip("OpenEXR")
    channels = openexr.File(str(file), separate_channels=True).channels()
    assert set(channels) == {"R", "G", "B"}
    return np.stack([channels[name].pixels for name in "RGB"], -1)


@pytest.mark.parametrize("type_, dtype", [("half", np.float16), ("float", np.float32)])
def test_exr_holds_the_vectors(convert, clip, type_, dtype):
    convert(clip, "out.npy")
    convert(clip, "out/%03d.exr", f"--exr-type={type_}")
    pictures = np.stack([read_exr(f"out/{i:03d}.exr") for i in range(30)])
    assert pictures.dtype == dtype
    np.testing.assert_array_equal(pictures, np.load("out.npy").astype(dtype))


@pytest.mark.parametrize("name", ["out.mkv", "out.mov"])
def test_lossless_video_is_the_elements_8_bit_output(convert, clip, name):
    convert(clip, name, "--lossless")
    np.testing.assert_array_equal(decoded(name), raw_output(convert, clip, RGB8, (3,), np.uint8))


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.webm"])
def test_video_keeps_the_full_resolution_of_colours(convert, clip, name):
    convert(clip, name)
    assert probed(name, "stream=pix_fmt") == [["yuv444p"]]
    raw = raw_output(convert, clip, RGB8, (3,), np.uint8)
    assert np.abs(decoded(name).astype(int) - raw).mean() < 6


def test_more_quality_is_closer(convert, clip):
    errors = []
    raw = raw_output(convert, clip, RGB8, (3,), np.uint8)
    for quality in (20, 60, 100):
        convert(clip, "out.mp4", f"--quality={quality}", "--overwrite")
        errors.append(np.abs(decoded("out.mp4").astype(int) - raw).mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 2


def test_alpha_is_kept_in_png_on_request(convert, clip, tmp_path):
    ffmpeg("-i", clip, "-frames:v", 4, "-vf", "format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='4*X'", "a%d.png")
    alpha = decoded("a%d.png", "rgba", channels=4)[..., 3]
    assert alpha.max() > alpha.min()
    for bits, pixels, dtype, scale in ((8, "rgba", np.uint8, 1), (16, "rgba64le", "<u2", 257)):
        convert("a%d.png", f"{bits}/%d.png", "--fps=25", "--alpha=copy", f"--bits={bits}")
        kept = decoded(f"{bits}/%d.png", pixels, dtype, 4)[..., 3]
        np.testing.assert_array_equal(kept, alpha.astype(int) * scale)
    convert("a%d.png", "opaque/%d.png", "--fps=25")
    assert probed("opaque/1.png", "stream=pix_fmt") == [["rgb24"]]


def test_a_contact_sheet_shows_input_normals_and_light(convert, clip):
    convert(clip, "out.mp4", "--preview=sheet.png")
    width, height = map(int, probed("sheet.png", "stream=width,height")[0])
    assert (width, height) == (6 * (WIDTH + 4) + 4, 3 * (HEIGHT + 4) + 4)
    sheet = decoded("sheet.png", size=(height, width))[0]
    raw = raw_output(convert, clip, RGB8, (3,), np.uint8)
    np.testing.assert_array_equal(sheet[8 + HEIGHT:8 + 2 * HEIGHT, 4:4 + WIDTH], raw[0])
    lit = sheet[12 + 2 * HEIGHT:12 + 3 * HEIGHT, 4:4 + WIDTH].astype(int)
    np.testing.assert_array_equal(lit[..., 0], lit[..., 1])
    vectors = raw[0].astype(float) / 127.5 - 1
    light = np.array([-0.4, 0.5, 0.75]) / np.linalg.norm([-0.4, 0.5, 0.75])
    expected = 255 * (0.15 + 0.85 * np.maximum(vectors @ light, 0))
    assert np.abs(lit[..., 0] - expected).max() < 1


def test_a_lit_video_goes_beside_any_output(convert, clip):
    convert(clip, "out.npy", "--preview=lit.mp4")
    assert probed("lit.mp4", "stream=nb_read_frames", "v:0", "-count_frames") == [["30"]]
    picture = decoded("lit.mp4").astype(int)
    assert np.abs(picture[..., 0] - picture[..., 1]).mean() < 2
