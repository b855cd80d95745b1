"""Pictures of what a model sees.

    python side_by_side.py synthetic OUT.png [--model DIR]        # input | predicted | true, of the evaluation set
    python side_by_side.py video OUT.png FILE... [--model DIR]    # input over predicted, two frames of each clip

Videos are decoded by GStreamer and scaled to 320 pixels at most. Vectors are shown as n/2 + 1/2.
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
from PIL import Image, ImageDraw

import evaluation
from element import DEMO_MODEL, environment, run_element

GAP, CAPTION = 4, 16
SHOWN_GROUPS = ("128x128", "192x128", "256x192", "320x192")
SYNTHETIC_FRAMES = 24
VIDEO_FRAMES = 28
LONGER_SIDE = 320


def as_colours(vectors):
    return np.floor((vectors * 0.5 + 0.5).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def grid(rows, captions, path):
    """Rows of equally many pictures [H,W,3]; a caption above each row."""
    widths = [max(row[i].shape[1] for row in rows) for i in range(len(rows[0]))]
    heights = [max(picture.shape[0] for picture in row) for row in rows]
    sheet = Image.new("RGB", (sum(widths) + GAP * (len(widths) + 1), sum(heights) + (CAPTION + GAP) * len(rows)), "white")
    draw, top = ImageDraw.Draw(sheet), 0
    for row, caption, height in zip(rows, captions, heights):
        draw.text((GAP, top + 2), caption, fill="black")
        left = GAP
        for picture, width in zip(row, widths):
            sheet.paste(Image.fromarray(picture), (left, top + CAPTION))
            left += width + GAP
        top += CAPTION + GAP + height
    sheet.save(path, optimize=True)


def synthetic(options):
    rows, captions = [], []
    for group in SHOWN_GROUPS:
        clip = evaluation.clips(group)[options.clip]
        rgb, normals = clip.render(SYNTHETIC_FRAMES)
        predicted = run_element(rgb, options.model, dtype="float32")
        middle = SYNTHETIC_FRAMES // 2
        error = evaluation.angles(predicted, normals).mean()
        rows.append([rgb[middle], as_colours(predicted[middle]), as_colours(normals[middle])])
        captions.append(f"{group}, seed {clip.seed}: input, predicted, true; mean error {error:.1f} degrees")
    grid(rows, captions, options.output)


def read_video(path):
    """The first frames of a video, uint8 [T,H,W,3]."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["gst-launch-1.0", "-q", "filesrc", f"location={path}", "!", "decodebin", "!", "videoconvert", "!",
                   "deinterlace", "fields=top", "!", "videoconvert", "!", "video/x-raw,format=RGB", "!", "identity",
                   f"eos-after={VIDEO_FRAMES + 1}", "!", "pngenc", "compression-level=1", "!", "multifilesink",
                   f"location={scratch}/%05d.png"]
        subprocess.run(command, env=environment(), check=True, stdin=subprocess.DEVNULL)
        frames = [Image.open(file).convert("RGB") for file in sorted(pathlib.Path(scratch).glob("*.png"))[:VIDEO_FRAMES]]
        scale = min(1, LONGER_SIDE / max(frames[0].size))
        size = [max(1, round(side * scale)) for side in frames[0].size]
        return np.stack([np.asarray(frame.resize(size, Image.LANCZOS)) for frame in frames])


def video(options):
    rows, captions = [], []
    for path in options.files:
        rgb = read_video(path)
        predicted = run_element(rgb, options.model, dtype="float32")
        chosen = (len(rgb) // 4, 3 * len(rgb) // 4)
        rows.append([picture for i in chosen for picture in (rgb[i], as_colours(predicted[i]))])
        captions.append(f"{pathlib.Path(path).name}: frames {chosen[0]} and {chosen[1]}")
    grid(rows, captions, options.output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("synthetic", "video"))
    parser.add_argument("output", metavar="OUT.png")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--model", default=DEMO_MODEL, metavar="DIR")
    parser.add_argument("--clip", type=int, default=0, help="number of the clip within each group (%(default)s)")
    options = parser.parse_args()
    {"synthetic": synthetic, "video": video}[options.what](options)


if __name__ == "__main__":
    main()
