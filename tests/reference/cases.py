"""The clips and options that engine and reference are compared on, as data."""

import dataclasses

from pipeline import Options, padding, processed_size


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: str
    frames: int
    height: int
    width: int
    options: Options = Options()
    bits: int = 8  # of the input's samples
    engine: tuple = ()  # further arguments of nc_probe that must not change the result
    split: bool = False  # image_encoder and feature_extractor come from a base model
    live: bool = False  # in the quick subset

    @property
    def large(self):
        """Padded sides of at least 128: where the absolute tolerances hold."""
        size = processed_size(self.height, self.width, self.options.max_resolution)
        top, bottom, left, right = padding(*size)
        return min(size[0] + top + bottom, size[1] + left + right) >= 128


def _case(name, model, frames, height, width, window=14, step=10, clip=16, encode=7, decode=4, limit=1024,
          output="original", tail="anchored", resize="seed", **other):
    options = Options(window, step, clip, encode, decode, limit, output, tail, resize)
    return Case(name, model, frames, height, width, options, **other)


CASES = [
    # The published options.
    _case("defaults-14", "two-level", 14, 128, 128),
    _case("defaults-1", "two-level", 1, 128, 128),
    _case("defaults-15-odd", "two-level", 15, 65, 97, live=True),
    _case("defaults-9-short", "two-level-sigma2", 9, 100, 128),
    _case("defaults-24-exact", "two-level-sigma2", 24, 66, 70),
    _case("defaults-40", "two-level-sigma2", 40, 70, 66),
    _case("repeat-33", "two-level-sigma2", 33, 72, 80, tail="repeat"),
    _case("repeat-34-exact", "two-level-sigma2", 34, 66, 66, tail="repeat"),
    # Windows, steps and chunks.
    _case("window-7-step-3", "two-level-sigma2", 24, 100, 72, 7, 3, decode=3, live=True),
    _case("window-5-step-1", "two-level-sigma2", 13, 128, 96, 5, 1),
    _case("window-9-chunks-1", "two-level-sigma2", 10, 128, 128, 9, 7, clip=1, encode=1, resize="original"),
    _case("window-1", "no-cross", 4, 128, 128, 1, 1),
    _case("window-2", "all-cross", 3, 128, 128, 2, 1),
    _case("step-is-window", "four-level", 10, 97, 131, 4, 4, decode=1),
    _case("encode-3", "four-level", 9, 128, 192, 5, 2, clip=4, encode=3),
    _case("two-windows-a-pass", "per-level", 16, 128, 128, 8, 4, engine=("--windows-per-pass", "2")),
    _case("resident", "per-level", 7, 128, 128, 5, 3, engine=("--offload-mode", "resident")),
    # Shapes of pictures.
    _case("portrait", "four-level", 3, 200, 120, 3, 2),
    _case("larger", "published-shape", 6, 300, 220, 4, 3, limit=160),
    _case("larger-processed", "published-shape", 5, 300, 220, 4, 3, limit=160, output="processed", resize="original"),
    _case("larger-wide", "all-cross", 5, 180, 320, 3, 2, limit=144),
    _case("strip", "two-level", 5, 400, 30, 4, 2, limit=200),
    _case("one-pixel", "two-level", 3, 1, 1, 3, 2),
    _case("smaller-processed", "two-level", 7, 257, 129, 4, 3, limit=128, output="processed"),
    _case("64x64-two-level", "two-level", 6, 64, 64, 4, 3),
    _case("64x64-four-level", "four-level", 6, 64, 64, 4, 3),
    # Models.
    _case("published-shape", "published-shape", 4, 128, 128, 4, 4),
    _case("published-shape-odd", "published-shape", 7, 121, 157, 5, 3, live=True),
    _case("published-shape-1", "published-shape", 1, 150, 150, 2, 2),
    _case("per-level-repeat", "per-level", 8, 128, 128, 5, 2, tail="repeat"),
    _case("per-level-odd", "per-level", 11, 96, 130, 6, 5, tail="repeat", resize="original"),
    _case("all-cross", "all-cross", 6, 128, 128, 4, 3),
    _case("all-cross-odd", "all-cross", 9, 75, 128, 5, 4, resize="original"),
    _case("no-cross", "no-cross", 8, 128, 128, 4, 2, decode=5),
    _case("no-cross-portrait", "no-cross", 13, 130, 70, 7, 6),
    _case("asymmetric", "asymmetric", 5, 128, 128, 5, 4, live=True),
    _case("asymmetric-repeat", "asymmetric", 8, 111, 90, 6, 4, tail="repeat"),
    _case("asymmetric-decode-2", "asymmetric", 10, 100, 100, 4, 3, decode=2, tail="repeat"),
    _case("base-model", "four-level", 2, 128, 128, 2, 2, split=True),
    # 16-bit input.
    _case("16-bit", "two-level", 9, 81, 101, 6, 3, bits=16),
    _case("16-bit-larger", "asymmetric", 3, 190, 140, 3, 2, limit=150, bits=16),
]
