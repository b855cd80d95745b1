"""What each option that is about memory costs: one window's frames through the element, one process for each setting.

    python memory.py --model DIRECTORY [--width 256 --height 256] [--frames 14]

The first line is the element's defaults; each further line changes what it names. Peak memory is the whole process's.
"""

import sys

import measuring

SETTINGS = (
    (), ("offload-mode=resident",), ("dtype=float32",), ("dtype=float32", "offload-mode=resident"),
    ("vae-decode-chunk-size=1",), ("clip-chunk-size=4", "vae-encode-chunk-size=1", "vae-decode-chunk-size=1"),
    ("max-resolution={half}",))


def measure(options, settings, environment):
    caps = f"video/x-raw,format=RGB,width={options.width},height={options.height},framerate=25/1"
    done = measuring.run(
        measuring.launch("videotestsrc", "pattern=ball", f"num-buffers={options.frames}", "!", caps, "!", "normalcrafter",
                         f"model={options.model}", "device=cpu", f"threads={options.threads}", *settings, "!", "fakesink"),
        environment)
    return {"settings": list(settings), "peak_bytes": done.peak_bytes, "seconds": done.seconds}


def main():
    parser = measuring.parser(__doc__, 256, 256, has_bars=False)
    parser.add_argument("--model", required=True, help="a model's directory")
    parser.add_argument("--frames", type=measuring.positive, default=14, help="of the clip (14)")
    options = measuring.parse(parser)
    environment = measuring.environment(options.build)
    measuring.require_element(environment)
    measuring.print_machine(options)
    print(f"model {options.model}, {options.frames} frames of {options.width}x{options.height}")
    print(f"{'peak GB':>8s}{'s':>8s}  settings", flush=True)
    rows = []
    for settings in SETTINGS:
        settings = [text.format(half=max(options.width, options.height) // 2) for text in settings]
        rows.append(measure(options, settings, environment))
        print(f"{rows[-1]['peak_bytes'] / 1e9:8.2f}{rows[-1]['seconds']:8.1f}  {' '.join(settings) or 'defaults'}", flush=True)
        measuring.write_json(options, model=str(options.model), frames=options.frames, results=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
