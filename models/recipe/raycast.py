"""Casts and shades the rays of one frame. Compiled by numba, one ray at a time, without Python's global lock.

Scenes come as plain arrays, whose columns are named here; scenes.py fills them. Lengths are in metres, vectors in
world space unless a name says otherwise. All hits are closed form but the torus', which is sphere traced.
"""

import math

import numba
import numpy as np

# Kinds of object, and their sizes: sphere and ellipsoid: semi-axes; box: half edges; cylinder round the y axis:
# radius, half height; torus round the y axis: radius of the ring, of the tube.
SPHERE, ELLIPSOID, BOX, CYLINDER, TORUS = range(5)

# Columns of the objects' array.
KIND, SIZE, BOUND, GLOSS, SHINE, TEXTURE, OBJECT_COLUMNS = 0, 1, 4, 5, 6, 7, 8
# Columns of the poses' array: rotation from object to world, by rows; centre.
ROTATION, CENTRE, POSE_COLUMNS = 0, 9, 12

# Kinds of texture. Each mixes two colours, but PHOTO, which has its own.
FLAT, GRADIENT, STRIPES, CHECKER, NOISE, WAVES, CELLS, PHOTO = range(8)
# Columns of the textures' array. IMAGE is the number of the noise table or of the photograph.
T_KIND, COLOUR_A, COLOUR_B, WAVE, FREQUENCY, T_ROTATION, SOFT, PHASE, IMAGE, TEXTURE_COLUMNS = (
    0, 1, 4, 7, 10, 11, 20, 21, 23, 24)

# Columns of the lights' array: direction to the light, or its place if IS_POINT; strength.
L_VECTOR, IS_POINT, STRENGTH, LIGHT_COLUMNS = 0, 3, 4, 5

# Entries of the room's array: half extents, gloss of the walls, whether the four walls look alike.
HALF, WALL_GLOSS, WALLS_ALIKE, ROOM_ENTRIES = 0, 3, 4, 5
# Entries of the shading array: ambient light, light from above, diffuse reflection, whether shadows are cast, tint.
AMBIENT, SKY, DIFFUSE, SHADOWS, TINT, SHADING_ENTRIES = 0, 1, 2, 3, 4, 7

WALL_SHINE = 20.0
IN_SHADOW = 0.15
NEAR = 1e-3
TORUS_STEPS = 60

jit = numba.njit(cache=True, nogil=True, fastmath={"nsz", "arcp", "contract", "afn", "reassoc"})


# Hits in object space: the ray's parameter, infinite where it misses.


@jit
def hit_ellipsoid(ox, oy, oz, dx, dy, dz, sx, sy, sz):
    ox, oy, oz, dx, dy, dz = ox / sx, oy / sy, oz / sz, dx / sx, dy / sy, dz / sz
    a = dx * dx + dy * dy + dz * dz
    b = ox * dx + oy * dy + oz * dz
    c = ox * ox + oy * oy + oz * oz - 1.0
    q = b * b - a * c
    if q <= 0.0:
        return math.inf
    t = (-b - math.sqrt(q)) / a
    return t if t > NEAR else math.inf


@jit
def away_from_zero(value):
    return value if abs(value) >= 1e-7 else 1e-7


@jit
def hit_box(ox, oy, oz, dx, dy, dz, sx, sy, sz):
    ix, iy, iz = 1.0 / away_from_zero(dx), 1.0 / away_from_zero(dy), 1.0 / away_from_zero(dz)
    mx, my, mz = -ox * ix, -oy * iy, -oz * iz
    kx, ky, kz = abs(ix) * sx, abs(iy) * sy, abs(iz) * sz
    enter = max(mx - kx, my - ky, mz - kz)
    leave = min(mx + kx, my + ky, mz + kz)
    return enter if enter < leave and enter > NEAR else math.inf


@jit
def hit_cylinder(ox, oy, oz, dx, dy, dz, radius, height):
    best = math.inf
    a = dx * dx + dz * dz + 1e-9
    b = ox * dx + oz * dz
    q = b * b - a * (ox * ox + oz * oz - radius * radius)
    if q > 0.0:
        t = (-b - math.sqrt(q)) / a
        if t > NEAR and abs(oy + t * dy) < height:
            best = t
    dy = away_from_zero(dy)
    t = ((-height if dy > 0.0 else height) - oy) / dy
    x, z = ox + t * dx, oz + t * dz
    if t > NEAR and x * x + z * z < radius * radius:
        best = min(best, t)
    return best


@jit
def hit_torus(ox, oy, oz, dx, dy, dz, ring, tube):
    middle = -(ox * dx + oy * dy + oz * dz)
    bound = ring + tube
    t = max(middle - bound, NEAR)
    for _ in range(TORUS_STEPS):
        x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
        across = math.sqrt(x * x + z * z) - ring
        distance = math.sqrt(across * across + y * y) - tube
        t += distance
        if distance < 2e-4 or t > middle + bound:
            break
    return t if distance < 2e-3 and t > 2 * NEAR else math.inf


@jit
def hit(kind, ox, oy, oz, dx, dy, dz, sx, sy, sz):
    if kind <= ELLIPSOID:
        return hit_ellipsoid(ox, oy, oz, dx, dy, dz, sx, sy, sz)
    if kind == BOX:
        return hit_box(ox, oy, oz, dx, dy, dz, sx, sy, sz)
    if kind == CYLINDER:
        return hit_cylinder(ox, oy, oz, dx, dy, dz, sx, sy)
    return hit_torus(ox, oy, oz, dx, dy, dz, sx, sy)


@jit
def unit(x, y, z):
    length = max(math.sqrt(x * x + y * y + z * z), 1e-9)
    return x / length, y / length, z / length


@jit
def object_normal(kind, x, y, z, sx, sy, sz):
    """At a point of the surface, in object space."""
    if kind <= ELLIPSOID:
        return unit(x / (sx * sx), y / (sy * sy), z / (sz * sz))
    if kind == BOX:
        qx, qy, qz = x / sx, y / sy, z / sz
        if abs(qx) >= abs(qy) and abs(qx) >= abs(qz):
            return math.copysign(1.0, qx), 0.0, 0.0
        if abs(qy) >= abs(qz):
            return 0.0, math.copysign(1.0, qy), 0.0
        return 0.0, 0.0, math.copysign(1.0, qz)
    if kind == CYLINDER:
        if abs(y) > sy * 0.9999 - 1e-4:
            return 0.0, math.copysign(1.0, y), 0.0
        return unit(x, 0.0, z)
    from_axis = max(math.sqrt(x * x + z * z), 1e-6)
    return unit(x - x * sx / from_axis, y, z - z * sx / from_axis)


@jit
def to_object(pose, x, y, z):
    """A vector from world to object space."""
    return (x * pose[0] + y * pose[3] + z * pose[6], x * pose[1] + y * pose[4] + z * pose[7],
            x * pose[2] + y * pose[5] + z * pose[8])


@jit
def to_world(pose, x, y, z):
    return (x * pose[0] + y * pose[1] + z * pose[2], x * pose[3] + y * pose[4] + z * pose[5],
            x * pose[6] + y * pose[7] + z * pose[8])


@jit
def nearest(objects, poses, ox, oy, oz, dx, dy, dz, limit, any_will_do):
    """The nearest object before `limit` along the ray, as (parameter, number); number -1: none."""
    best, which = limit, -1
    for i in range(len(objects)):
        entry, pose = objects[i], poses[i]
        cx, cy, cz = pose[CENTRE] - ox, pose[CENTRE + 1] - oy, pose[CENTRE + 2] - oz
        along = cx * dx + cy * dy + cz * dz
        bound = entry[BOUND]
        if along <= -bound or cx * cx + cy * cy + cz * cz - along * along >= bound * bound:
            continue
        px, py, pz = to_object(pose, -cx, -cy, -cz)
        vx, vy, vz = to_object(pose, dx, dy, dz)
        t = hit(entry[KIND], px, py, pz, vx, vy, vz, entry[SIZE], entry[SIZE + 1], entry[SIZE + 2])
        if t < best:
            best, which = t, i
            if any_will_do:
                break
    return best, which


# Textures: a point in the object's or the room's space gives a colour.


@jit
def value_noise(table, x, y, z):
    fx, fy, fz = math.floor(x), math.floor(y), math.floor(z)
    u, v, w = x - fx, y - fy, z - fz
    u, v, w = u * u * (3.0 - 2.0 * u), v * v * (3.0 - 2.0 * v), w * w * (3.0 - 2.0 * w)
    i, j, k = int(fx) & 15, int(fy) & 15, int(fz) & 15
    i1, j1, k1 = (i + 1) & 15, (j + 1) & 15, (k + 1) & 15
    low = ((table[i, j, k] * (1 - w) + table[i, j, k1] * w) * (1 - v)
           + (table[i, j1, k] * (1 - w) + table[i, j1, k1] * w) * v)
    high = ((table[i1, j, k] * (1 - w) + table[i1, j, k1] * w) * (1 - v)
            + (table[i1, j1, k] * (1 - w) + table[i1, j1, k1] * w) * v)
    return low * (1 - u) + high * u


@jit
def mirrored(value, size):
    """A coordinate in pictures that are repeated, every other one mirrored -> [0, size - 1]"""
    value = abs(value) % (2.0 * (size - 1))
    return value if value <= size - 1 else 2.0 * (size - 1) - value


@jit
def photo_colour(photo, u, v):
    height, width = photo.shape[0], photo.shape[1]
    x, y = mirrored(u * width, width), mirrored(v * height, height)
    i, j = min(int(y), height - 2), min(int(x), width - 2)
    fy, fx = y - i, x - j
    w00, w01, w10, w11 = (1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx
    r = photo[i, j, 0] * w00 + photo[i, j + 1, 0] * w01 + photo[i + 1, j, 0] * w10 + photo[i + 1, j + 1, 0] * w11
    g = photo[i, j, 1] * w00 + photo[i, j + 1, 1] * w01 + photo[i + 1, j, 1] * w10 + photo[i + 1, j + 1, 1] * w11
    b = photo[i, j, 2] * w00 + photo[i, j + 1, 2] * w01 + photo[i + 1, j, 2] * w10 + photo[i + 1, j + 1, 2] * w11
    return r / 255.0, g / 255.0, b / 255.0


@jit
def mix(texture, tables, x, y, z):
    """How much of the second colour there is."""
    kind, f, phase = texture[T_KIND], texture[FREQUENCY], texture[PHASE]
    if kind == GRADIENT or kind == STRIPES:
        dot = x * texture[WAVE] + y * texture[WAVE + 1] + z * texture[WAVE + 2]
        if kind == GRADIENT:
            return 0.5 + 0.5 * math.sin(dot * 0.3 + phase)
        wave = math.sin(dot * 2.0 + phase)
        if texture[SOFT] != 0.0:
            return wave * 0.5 + 0.5
        return 1.0 if wave > 0.0 else 0.0
    if kind == NOISE:
        table = tables[int(texture[IMAGE])]
        return (0.65 * value_noise(table, x * f * 2.0, y * f * 2.0, z * f * 2.0)
                + 0.35 * value_noise(table, x * f * 5.0 + 3.0, y * f * 5.0 + 3.0, z * f * 5.0 + 3.0))
    if kind == CELLS:
        i, j, k = math.floor(x * f * 3.0), math.floor(y * f * 3.0), math.floor(z * f * 3.0)
        return tables[int(texture[IMAGE]), int(i) & 15, int(j) & 15, int(k) & 15]
    if kind == WAVES or texture[SOFT] != 0.0:
        x, y, z = to_object(texture[T_ROTATION:T_ROTATION + 9], x, y, z)
    if kind == WAVES:
        return 0.5 + 0.5 * math.sin(x * f * 6.0 + 1.5 * math.sin(y * f * 4.0 + texture[PHASE + 1]) + phase)
    fields = math.floor(x * f + 0.013) + math.floor(y * f + 0.013) + math.floor(z * f + 0.013)
    return fields % 2.0


@jit
def albedo(texture, tables, photos, x, y, z, nx, ny, nz):
    """The colour at a point with the normal n, both in the texture's space."""
    kind = texture[T_KIND]
    if kind == PHOTO:  # seen along the axis that the normal is nearest to
        f, photo = texture[FREQUENCY], photos[int(texture[IMAGE])]
        if abs(nx) >= abs(ny) and abs(nx) >= abs(nz):
            return photo_colour(photo, z * f + texture[PHASE], y * f + texture[PHASE + 1])
        if abs(ny) >= abs(nz):
            return photo_colour(photo, x * f + texture[PHASE], z * f + texture[PHASE + 1])
        return photo_colour(photo, x * f + texture[PHASE], y * f + texture[PHASE + 1])
    m = mix(texture, tables, x, y, z) if kind != FLAT else 0.0
    return (texture[COLOUR_A] + (texture[COLOUR_B] - texture[COLOUR_A]) * m,
            texture[COLOUR_A + 1] + (texture[COLOUR_B + 1] - texture[COLOUR_A + 1]) * m,
            texture[COLOUR_A + 2] + (texture[COLOUR_B + 2] - texture[COLOUR_A + 2]) * m)


# Light.


@jit
def light_at(light, objects, poses, shadows, px, py, pz, nx, ny, nz, dx, dy, dz, gloss, shine):
    """(diffuse, specular) light of one source that a point sends along -d."""
    tx, ty, tz = light[L_VECTOR], light[L_VECTOR + 1], light[L_VECTOR + 2]
    far = math.inf
    if light[IS_POINT] != 0.0:
        tx, ty, tz = tx - px, ty - py, tz - pz
        far = math.sqrt(tx * tx + ty * ty + tz * tz)
    tx, ty, tz = unit(tx, ty, tz)
    diffuse = nx * tx + ny * ty + nz * tz
    if diffuse <= 0.0:
        return 0.0, 0.0
    if shadows != 0.0:
        _, blocker = nearest(objects, poses, px + nx * 4e-3, py + ny * 4e-3, pz + nz * 4e-3, tx, ty, tz, far, True)
        if blocker >= 0:
            diffuse *= IN_SHADOW
    specular = 0.0
    if gloss > 0.0:
        hx, hy, hz = unit(tx - dx, ty - dy, tz - dz)
        specular = gloss * max(nx * hx + ny * hy + nz * hz, 0.0)**shine
    return diffuse * light[STRENGTH], specular * light[STRENGTH]


@jit
def wall_ahead(half, ex, ey, ez, dx, dy, dz):
    """(parameter, axis) of the wall that a ray from inside the room meets."""
    tx = ((half[0] if dx > 0.0 else -half[0]) - ex) / away_from_zero(dx)
    ty = ((half[1] if dy > 0.0 else -half[1]) - ey) / away_from_zero(dy)
    tz = ((half[2] if dz > 0.0 else -half[2]) - ez) / away_from_zero(dz)
    if tx <= ty and tx <= tz:
        return tx, 0
    return (ty, 1) if ty <= tz else (tz, 2)


@jit
def render(objects, poses, textures, tables, photos, room, lights, shading, eye, basis, focal, rgb, normals):
    """Fills rgb [H,W,3], linear and not limited, and normals [H,W,3] in camera space. Textures 0 to 5 are the
    walls'. The columns of `basis` are the camera's right, up and back."""
    height, width = rgb.shape[0], rgb.shape[1]
    longer = max(height, width)
    ex, ey, ez = eye[0], eye[1], eye[2]
    for row in range(height):
        for column in range(width):
            cx, cy, cz = ((column + 0.5) * 2.0 - width) / longer, -((row + 0.5) * 2.0 - height) / longer, -focal
            dx, dy, dz = unit(basis[0, 0] * cx + basis[0, 1] * cy + basis[0, 2] * cz,
                              basis[1, 0] * cx + basis[1, 1] * cy + basis[1, 2] * cz,
                              basis[2, 0] * cx + basis[2, 1] * cy + basis[2, 2] * cz)
            t, axis = wall_ahead(room, ex, ey, ez, dx, dy, dz)
            t, which = nearest(objects, poses, ex, ey, ez, dx, dy, dz, t, False)
            px, py, pz = ex + t * dx, ey + t * dy, ez + t * dz
            if which < 0:
                direction = dx if axis == 0 else dy if axis == 1 else dz
                inward = -1.0 if direction > 0.0 else 1.0
                nx, ny, nz = (inward, 0.0, 0.0) if axis == 0 else (0.0, inward, 0.0) if axis == 1 else (0.0, 0.0, inward)
                face = axis * 2 + (1 if direction > 0.0 else 0)
                if room[WALLS_ALIKE] != 0.0 and axis != 1:
                    face = 0
                red, green, blue = albedo(textures[face], tables, photos, px, py, pz, nx, ny, nz)
                gloss, shine = room[WALL_GLOSS], WALL_SHINE
            else:
                entry, pose = objects[which], poses[which]
                qx, qy, qz = to_object(pose, px - pose[CENTRE], py - pose[CENTRE + 1], pz - pose[CENTRE + 2])
                mx, my, mz = object_normal(entry[KIND], qx, qy, qz, entry[SIZE], entry[SIZE + 1], entry[SIZE + 2])
                red, green, blue = albedo(textures[int(entry[TEXTURE])], tables, photos, qx, qy, qz, mx, my, mz)
                nx, ny, nz = to_world(pose, mx, my, mz)
                gloss, shine = entry[GLOSS], entry[SHINE]
            diffuse, specular = 0.0, 0.0
            for i in range(len(lights)):
                d, s = light_at(lights[i], objects, poses, shading[SHADOWS], px, py, pz, nx, ny, nz, dx, dy, dz,
                                gloss, shine)
                diffuse, specular = diffuse + d, specular + s
            level = shading[AMBIENT] + shading[SKY] * ny + shading[DIFFUSE] * diffuse
            rgb[row, column, 0] = red * level * shading[TINT] + specular
            rgb[row, column, 1] = green * level * shading[TINT + 1] + specular
            rgb[row, column, 2] = blue * level * shading[TINT + 2] + specular
            normals[row, column, 0] = nx * basis[0, 0] + ny * basis[1, 0] + nz * basis[2, 0]
            normals[row, column, 1] = nx * basis[0, 1] + ny * basis[1, 1] + nz * basis[2, 1]
            normals[row, column, 2] = nx * basis[0, 2] + ny * basis[1, 2] + nz * basis[2, 2]
