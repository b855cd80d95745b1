"""The Python reference on a device: diffusers' networks where a GPU user has them, in any type, staged or resident.

    python device_reference.py --model DIRECTORY --input clip.npy --output out.npy --device cuda --dtype float16

The arithmetic is tests/reference/pipeline.py's. As there and in the engine, a VAE whose configuration says force_upcast
is computed in float32 where the rest is float16. Prints the seconds of each stage of the last pass and the peak of
device memory.
"""

import argparse
import functools
import sys
import time

from measuring import REFERENCE

sys.path.insert(0, str(REFERENCE))
import numpy as np  # noqa: E402
import pipeline  # noqa: E402, of the reference
import torch  # noqa: E402

DTYPES = {**pipeline.DTYPES, "float16": torch.float16}
NETWORKS = ("image_encoder", "vae", "unet")


class DeviceReference(pipeline.Reference):
    """Networks and constants on `device`; frames come and vectors go by the host."""

    def __init__(self, directory, dtype, device, staged):
        super().__init__(directory, dtype)
        self.device, self.staged = torch.device(device), staged
        if dtype == torch.float16 and self.vae.config.force_upcast:
            self.vae.to(torch.float32)
        self.mean, self.std = self.mean.to(device), self.std.to(device)
        self.scheduler.set_timesteps = functools.partial(self.scheduler.set_timesteps, device=device)
        for name in NETWORKS:
            getattr(self, name).to("cpu" if staged else device)

    def use(self, name):
        """The network on the device; staged, the others off it."""
        if self.staged and next(getattr(self, name).parameters()).device != self.device:
            for other in NETWORKS:
                getattr(self, other).to("cpu")
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            getattr(self, name).to(self.device)

    def embed(self, frames, clip_resize="seed"):
        self.use("image_encoder")
        return super().embed(frames.to(self.device), clip_resize)

    def encode(self, frames):
        self.use("vae")
        moments = self.vae.encode((frames.to(self.device) * 2 - 1).to(self.vae.dtype))
        return moments.latent_dist.mode().to(self.dtype)

    def predict(self, normals, latents, context):
        self.use("unet")
        return super().predict(normals, latents, context)

    def decode(self, latents):
        self.use("vae")
        return super().decode(latents.to(self.vae.dtype)).cpu()


class DeviceProfile(pipeline.Profile):
    """Seconds a stage, of work that is done when the clock stops."""

    def measure(self, stage, function, *arguments):
        def finished():
            result = function(*arguments)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return result
        return super().measure(stage, finished)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True, help=".npy, uint8 [F,H,W,3]")
    parser.add_argument("--output", required=True, help=".npy, float32 unit vectors")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="float16")
    parser.add_argument("--offload-mode", choices=("staged", "resident"), default="resident")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--passes", type=int, default=1, help="times the clip is computed; the last one counts")
    o = parser.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = DeviceReference(o.model, DTYPES[o.dtype], o.device, o.offload_mode == "staged")
    clip = np.load(o.input)
    for _ in range(o.passes):
        profile, begin = DeviceProfile(), time.perf_counter()
        with torch.device(o.device):  # the time step's and the windows' small tensors
            vectors = pipeline.run(model, clip, pipeline.Options(), profile)
        seconds = time.perf_counter() - begin
    np.save(o.output, pipeline.renormalize(vectors).astype(np.float32))
    for stage, value in {**profile.seconds, "total": seconds}.items():
        print(f"{stage:8s} {value:8.2f} s")
    if o.device.startswith("cuda"):
        print(f"device-peak     {torch.cuda.max_memory_allocated() / 1e9:8.3f} GB")
        print(f"device-reserved {torch.cuda.max_memory_reserved() / 1e9:8.3f} GB")


if __name__ == "__main__":
    main()
