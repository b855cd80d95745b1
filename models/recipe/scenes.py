"""Moving synthetic scenes with exact surface normals; everything follows from a seed.

A scene is a camera that moves inside a room (a box seen from inside) with spheres, ellipsoids, boxes, cylinders and
tori, each with its pose, motion, procedural texture and gloss, under one light with an ambient term, with or without
cast shadows, with random exposure and gamma. Normals are in camera space: x right, y up, z towards the viewer.

    rgb, normals = make_clip(seed, frames, height, width)

The draws of `sample_scene` and their order are GENERATOR_VERSION: whoever changes them changes the version.
"""

import dataclasses

import numpy as np

import raycast as rc

GENERATOR_VERSION = 1

KINDS = (("sphere", rc.SPHERE), ("ellipsoid", rc.ELLIPSOID), ("box", rc.BOX), ("cylinder", rc.CYLINDER),
         ("torus", rc.TORUS))
# Flat surfaces twice as often as each pattern.
TEXTURE_KINDS = (rc.FLAT, rc.FLAT, rc.GRADIENT, rc.STRIPES, rc.CHECKER, rc.NOISE, rc.WAVES)
NO_PHOTOS = np.zeros((1, 2, 2, 3), np.uint8)
FAR_UP = np.array([0.0, 1.0, 0.0])


@dataclasses.dataclass
class Camera:
    eye: np.ndarray
    target: np.ndarray
    velocity: np.ndarray
    target_velocity: np.ndarray
    roll: float
    focal: float  # half the longer side of the picture is 1


@dataclasses.dataclass
class Motion:
    """Pose of an object over time: it turns about `axis` and goes straight on."""
    rotation: np.ndarray
    centre: np.ndarray
    velocity: np.ndarray
    axis: np.ndarray
    spin: float

    def at(self, time):
        pose = np.empty(rc.POSE_COLUMNS)
        pose[:rc.CENTRE] = (rotation_about(self.axis, self.spin * time) @ self.rotation).ravel()
        pose[rc.CENTRE:] = self.centre + self.velocity * time
        return pose


@dataclasses.dataclass
class Scene:
    camera: Camera
    objects: np.ndarray  # [n, rc.OBJECT_COLUMNS]
    motions: list
    textures: np.ndarray  # [6 + n, rc.TEXTURE_COLUMNS], the walls' first
    tables: np.ndarray  # [6 + n, 16, 16, 16] of noise
    room: np.ndarray
    lights: np.ndarray  # [m, rc.LIGHT_COLUMNS]
    shading: np.ndarray
    gamma: float
    gain: float
    photos: np.ndarray = dataclasses.field(default_factory=lambda: NO_PHOTOS)  # [k, h, w, 3] uint8


def unit(v):
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-9)


def rotation_about(axis, angle):
    """Rodrigues' rotation matrix."""
    x, y, z = unit(np.asarray(axis, float))
    c, s = np.cos(angle), np.sin(angle)
    k = 1 - c
    return np.array([[c + x * x * k, x * y * k - z * s, x * z * k + y * s],
                     [y * x * k + z * s, c + y * y * k, y * z * k - x * s],
                     [z * x * k - y * s, z * y * k + x * s, c + z * z * k]])


def random_rotation(r):
    return rotation_about(r.normal(size=3), r.uniform(0, np.pi))


# Drawing a scene.


def random_colour(r):
    c = r.uniform(0.05, 1, 3)
    return (c * r.uniform(0.3, 1) + (1 - r.uniform(0.2, 1)) * c.mean()).clip(0.03, 1)


def sample_texture(r, scale):
    """(row of the textures' array, noise table) of a pattern for things about `scale` large."""
    row = np.zeros(rc.TEXTURE_COLUMNS)
    first, second = random_colour(r), random_colour(r)
    if r.random() < 0.5:
        second = 0.6 * first + 0.4 * second  # low contrast as often as high
    row[rc.T_KIND] = r.choice(TEXTURE_KINDS)
    row[rc.COLOUR_A:rc.COLOUR_A + 3], row[rc.COLOUR_B:rc.COLOUR_B + 3] = first, second
    row[rc.WAVE:rc.WAVE + 3] = unit(r.normal(size=3)) * r.uniform(2, 9) / scale
    row[rc.FREQUENCY] = r.uniform(1.0, 4.0) / scale
    row[rc.T_ROTATION:rc.T_ROTATION + 9] = random_rotation(r).ravel()
    table = r.random((16, 16, 16))
    row[rc.SOFT] = r.random() < 0.5
    row[rc.PHASE:rc.PHASE + 2] = r.uniform(0, 6, 4)[:2]
    return row, table


def sample_camera(r, half):
    eye = np.array([r.uniform(-.6, .6), r.uniform(-.6, .7), r.uniform(.3, .85)]) * half
    target = np.array([r.uniform(-.6, .6), r.uniform(-.9, .4), r.uniform(-.9, 0)]) * half
    return Camera(eye, target, velocity=r.normal(size=3) * 0.03 * r.choice([0, 1, 2]),
                  target_velocity=r.normal(size=3) * 0.04 * r.choice([0, 1, 2]), roll=r.normal() * 0.08,
                  focal=r.uniform(0.8, 2.2))


def sample_size(r, kind, size):
    """(sizes, radius of the bounding sphere). All kinds draw alike, so that the draws after do not depend on it."""
    sizes = {"sphere": np.full(3, size), "ellipsoid": size * r.uniform(0.4, 1.2, 3), "box": size * r.uniform(0.25, 1.1, 3),
             "cylinder": size * np.array([r.uniform(.2, .8), r.uniform(.3, 1.2), 0]),
             "torus": size * np.array([.75, r.uniform(.12, .35), 0])}[kind]
    bound = {"box": np.linalg.norm(sizes), "cylinder": np.hypot(sizes[0], sizes[1]), "torus": sizes[0] + sizes[1]}
    return sizes, bound.get(kind, sizes.max())


def sample_object(r, half, camera):
    """(row of the objects' array, its motion, texture, noise table), or None where it would block the camera."""
    name, kind = KINDS[r.integers(len(KINDS))]
    size = r.uniform(0.2, 1.0) * min(1.2, half[1] * 0.6)
    sizes, bound = sample_size(r, name, size)
    distance = r.uniform(1.0, 6)
    ahead = unit(camera.target - camera.eye)
    centre = camera.eye + ahead * distance + r.normal(size=3) * (0.55 * distance / camera.focal)
    upright = r.random() < 0.5
    if upright:  # on the floor
        centre[1] = -half[1] + (bound if kind in (rc.SPHERE, rc.ELLIPSOID) else sizes[1])
    margin = 0.6 * min(sizes[0], 1)
    centre = np.clip(centre, -half + margin, half - margin)
    if np.linalg.norm(centre - camera.eye) < bound + 0.5:
        return None
    moves = r.random() < 0.4
    rotation = rotation_about(FAR_UP, r.uniform(0, 6)) if upright else random_rotation(r)
    velocity = r.normal(size=3) * 0.03 * moves * (1, 0 if upright else 1, 1)
    axis = FAR_UP if upright else r.normal(size=3)
    motion = Motion(rotation, centre, velocity, axis, spin=r.normal() * 0.08 * moves)
    texture, table = sample_texture(r, size)
    row = np.zeros(rc.OBJECT_COLUMNS)
    row[rc.KIND], row[rc.SIZE:rc.SIZE + 3], row[rc.BOUND] = kind, sizes, bound
    row[rc.GLOSS], row[rc.SHINE] = r.choice([0, 0, .3, .8]), r.uniform(8, 60)
    return row, motion, texture, table


def sample_scene(r):
    half = np.array([r.uniform(1.5, 6), r.uniform(1.2, 3.5), r.uniform(2, 7)])
    camera = sample_camera(r, half)
    objects = [sample_object(r, half, camera) for _ in range(r.integers(2, 11))]
    objects = [entry for entry in objects if entry]
    direction = unit(np.array([r.normal(), r.uniform(0.2, 2), r.normal() + 0.5]))
    is_point = r.random() < 0.5
    walls = [sample_texture(r, 1.5) for _ in range(6)]
    alike = r.random() < 0.5
    light = direction * half * r.uniform(.3, .95) if is_point else direction
    shading = np.zeros(rc.SHADING_ENTRIES)
    shading[rc.AMBIENT], shading[rc.SKY], shading[rc.DIFFUSE] = r.uniform(0.15, 0.5), r.uniform(0, 0.3), r.uniform(0.5, 1.1)
    shading[rc.SHADOWS] = r.random() < 0.6
    gamma = r.choice([1.0, 1 / 1.5, 1 / 2.2])
    shading[rc.TINT:] = (1 + 0.12 * r.normal(size=3)).clip(.6, 1.4)
    room = np.array([*half, r.choice([0, 0, .2]), alike])
    for number, entry in enumerate(objects):
        entry[0][rc.TEXTURE] = 6 + number
    patterns = walls + [entry[2:] for entry in objects]
    for number, (row, _) in enumerate(patterns):
        row[rc.IMAGE] = number
    return Scene(camera, np.array([entry[0] for entry in objects]).reshape(-1, rc.OBJECT_COLUMNS),
                 [entry[1] for entry in objects], np.array([p[0] for p in patterns]),
                 np.array([p[1] for p in patterns], np.float32), room, np.array([[*light, is_point, 1.0]]), shading,
                 gamma, gain=r.uniform(0.75, 1.3))


# Rendering.


def camera_pose(scene, time):
    """(eye, matrix whose columns are right, up and back)"""
    camera, half = scene.camera, scene.room[rc.HALF:rc.HALF + 3]
    eye = np.clip(camera.eye + camera.velocity * time, -half * .95, half * .95)
    back = unit(eye - camera.target - camera.target_velocity * time)
    right = unit(np.cross([np.sin(camera.roll), np.cos(camera.roll), 0], back))
    return eye, np.stack([right, np.cross(back, right), back], 1)


def render_linear(scene, time, height, width):
    """(light [H,W,3], normals [H,W,3]) as float32."""
    rgb, normals = np.empty((height, width, 3), np.float32), np.empty((height, width, 3), np.float32)
    poses = np.array([motion.at(time) for motion in scene.motions]).reshape(-1, rc.POSE_COLUMNS)
    eye, basis = camera_pose(scene, time)
    rc.render(scene.objects, poses, scene.textures, scene.tables, scene.photos, scene.room, scene.lights,
              scene.shading, eye, np.ascontiguousarray(basis), float(scene.camera.focal), rgb, normals)
    return rgb, normals


def render_frame(scene, time, height, width, samples=1):
    """(rgb in [0,1], unit normals), [H,W,3] float32; each pixel is the mean of samples x samples rays."""
    rgb, normals = render_linear(scene, time, height * samples, width * samples)
    if samples > 1:
        shape = (height, samples, width, samples, 3)
        rgb = rgb.clip(0, 1.5).reshape(shape).mean((1, 3))
        normals = unit(normals.reshape(shape).mean((1, 3)))
    return (rgb * np.float32(scene.gain)).clip(0, 1)**np.float32(scene.gamma), normals


def render_clip(scene, times, height, width, samples=1):
    frames = [render_frame(scene, time, height, width, samples) for time in times]
    return np.stack([f[0] for f in frames]), np.stack([f[1] for f in frames])


def make_clip(seed, frames, height, width, samples=1):
    """(rgb [T,H,W,3] in [0,1], unit normals [T,H,W,3]), float32. `seed`: what np.random.default_rng takes."""
    return render_clip(sample_scene(np.random.default_rng(seed)), range(frames), height, width, samples)
