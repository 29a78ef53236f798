"""The corruptions once more, one image at a time, written straight from the recipe and with no thought
of speed. They share no code with `uraenas.shifts`; only the order in which draws are taken is agreed on."""

import io
import math

import cv2
import numpy as np
from PIL import Image
from scipy.ndimage import map_coordinates
from scipy.ndimage import zoom as scipy_zoom
from skimage.color import hsv2rgb, rgb2hsv
from skimage.filters import gaussian

from uraenas.shifts.requires import frost_texture_paths


def finished(x):
    return np.uint8(np.clip(x, 0, 1) * 255)


def zoomed(x, zoom):
    height, width = x.shape[:2]
    rows, columns = math.ceil(height / zoom), math.ceil(width / zoom)
    top, left = (height - rows) // 2, (width - columns) // 2
    big = scipy_zoom(x[top : top + rows, left : left + columns], (zoom, zoom, 1), order=1)
    top, left = (big.shape[0] - height) // 2, (big.shape[1] - width) // 2
    return big[top : top + height, left : left + width]


def streaked(image, radius, sigma, degrees):
    height, width, channels = image.shape
    taps = 2 * math.ceil(radius) + 1
    kernel = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(taps)]
    kernel = [k / sum(kernel) for k in kernel]
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    out = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            total = np.zeros(channels)
            for i, k in enumerate(kernel):
                yy = min(max(y + math.ceil(i * sine - 0.5), 0), height - 1)
                xx = min(max(x + math.ceil(i * cosine - 0.5), 0), width - 1)
                total += k * image[yy, xx]
            out[y, x] = np.floor(257 * total + 0.5) // 257
    return out


def gaussian_noise(image, severity, generator):
    c = [0.04, 0.06, 0.08, 0.09, 0.10][severity - 1]
    return finished(image / 255 + generator.normal(0, c, image.shape))


def shot_noise(image, severity, generator):
    c = [500, 250, 100, 75, 50][severity - 1]
    return finished(generator.poisson(image / 255 * c) / c)


def impulse_noise(image, severity, generator):
    c = [0.01, 0.02, 0.03, 0.05, 0.07][severity - 1]
    out = image / 255
    for place, u in np.ndenumerate(generator.random(image.shape)):
        if u < c:
            out[place] = 0 if u < c / 2 else 1
    return finished(out)


def speckle_noise(image, severity, generator):
    c = [0.06, 0.1, 0.12, 0.16, 0.2][severity - 1]
    return finished(image / 255 + image / 255 * generator.normal(0, c, image.shape))


def defocus_blur(image, severity, generator):
    radius, alias = [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)][severity - 1]
    x, y = np.meshgrid(np.arange(-8, 9), np.arange(-8, 9))
    disk = np.array(x**2 + y**2 <= radius**2, np.float32)
    disk /= disk.sum()
    kernel = cv2.GaussianBlur(disk, (3, 3), sigmaX=alias)
    planes = [cv2.filter2D(image[:, :, d] / 255, -1, kernel) for d in range(image.shape[2])]
    return finished(np.stack(planes, axis=2))


def glass_blur(image, severity, generator):
    sigma, delta, rounds = [(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)][severity - 1]
    height, width = image.shape[:2]
    x = np.uint8(gaussian(image / 255, sigma=sigma, channel_axis=-1) * 255)
    draws = generator.integers(-delta, delta, (rounds, 2, height - 2, width - 2), dtype=np.int8)
    for around in range(rounds):
        for h in range(height - 1, 1, -1):
            for w in range(width - 1, 1, -1):
                dx, dy = draws[around, :, h - 2, w - 2]
                x[h, w] = x[h + dy, w + dx]
    return finished(gaussian(x / 255, sigma=sigma, channel_axis=-1))


def motion_blur(image, severity, generator):
    radius, sigma = [(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)][severity - 1]
    return streaked(image, radius, sigma, generator.uniform(-45, 45))


def zoom_blur(image, severity, generator):
    zooms = np.arange(1, [1.06, 1.11, 1.16, 1.21, 1.26][severity - 1], 0.01)
    assert len(zooms) == [7, 12, 16, 21, 26][severity - 1]
    x = (image / 255).astype(np.float32)
    out = np.zeros_like(x)
    for zoom in zooms:
        out += zoomed(x, zoom)
    return finished((x + out) / (len(zooms) + 1))


def gaussian_blur(image, severity, generator):
    return finished(gaussian(image / 255, sigma=[0.4, 0.6, 0.7, 0.8, 1][severity - 1], channel_axis=-1))


def snow(image, severity, generator):
    c = [
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ][severity - 1]
    x = np.float32(image) / 255
    layer = zoomed(generator.normal(c[0], c[1], image.shape[:2])[..., np.newaxis], c[2])
    layer[layer < c[3]] = 0
    layer = streaked(finished(layer), c[4], c[5], generator.uniform(-135, -45)) / 255
    grey = cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[..., np.newaxis] if image.shape[2] == 3 else x
    x = c[6] * x + (1 - c[6]) * np.maximum(x, grey * 1.5 + 0.5)
    return finished(x + layer + np.rot90(layer, k=2))


def frost(image, severity, generator):
    c = [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)][severity - 1]
    height, width = image.shape[:2]
    texture = cv2.imread(str(frost_texture_paths()[generator.integers(5)]))
    texture = cv2.resize(texture, (0, 0), fx=0.2, fy=0.2)
    top = generator.integers(0, texture.shape[0] - height)
    left = generator.integers(0, texture.shape[1] - width)
    crop = texture[top : top + height, left : left + width, [2, 1, 0]]
    return np.uint8(np.clip(c[0] * image + c[1] * crop, 0, 255))


def plasma(size, decay, generator):
    """Diamond-square with one loop for each point, on a grid that wraps around."""
    draws = iter(generator.uniform(-1, 1, size * size - 1))
    height = np.zeros((size, size))
    step, wibble = size, 100.0
    while step >= 2:
        half = step // 2
        diagonal = [(-half, -half), (half, -half), (-half, half), (half, half)]
        straight = [(-half, 0), (half, 0), (0, -half), (0, half)]
        for top, left, around in ((half, half, diagonal), (0, half, straight), (half, 0, straight)):
            for y in range(top, size, step):
                for x in range(left, size, step):
                    mean = sum(height[(y + dy) % size, (x + dx) % size] for dy, dx in around) / 4
                    height[y, x] = mean + wibble * wibble * next(draws)
        step, wibble = half, wibble / decay
    height -= height.min()
    return height / height.max()


def fog(image, severity, generator):
    c = [(0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)][severity - 1]
    x = image / 255
    brightest = x.max()
    x += c[0] * plasma(32, c[1], generator)[..., np.newaxis]
    return finished(x * brightest / (brightest + c[0]))


def spatter(image, severity, generator):
    c = [
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ][severity - 1]
    x = np.float32(image) / 255
    layer = gaussian(generator.normal(c[0], c[1], image.shape[:2]), sigma=c[2])
    layer[layer < c[3]] = 0
    if c[5] == 1:
        mud = gaussian(np.float32(layer > c[3]), sigma=c[4])
        mud[mud < 0.8] = 0
        mud = mud[..., np.newaxis]
        return finished(x * (1 - mud) + mud * np.array([63, 42, 20]) / 255)
    layer = np.uint8((layer * 255).astype(int) % 256)
    distance = cv2.distanceTransform(255 - cv2.Canny(layer, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    distance = cv2.equalizeHist(np.uint8(cv2.blur(distance, (3, 3))))
    distance = cv2.filter2D(distance, cv2.CV_8U, np.float32([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    water = layer * np.float32(cv2.blur(distance, (3, 3)))
    if water.max() > 0:
        water = water / water.max() * c[4]
    return finished(x + water[..., np.newaxis] * np.array([175, 238, 238]) / 255)


def brightness(image, severity, generator):
    x = rgb2hsv(image / 255)
    x[..., 2] = np.clip(x[..., 2] + [0.05, 0.1, 0.15, 0.2, 0.3][severity - 1], 0, 1)
    return finished(hsv2rgb(x))


def contrast(image, severity, generator):
    x = image / 255
    mean = np.mean(x, axis=(0, 1))
    return finished((x - mean) * [0.75, 0.5, 0.4, 0.3, 0.15][severity - 1] + mean)


def saturate(image, severity, generator):
    c = [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)][severity - 1]
    x = rgb2hsv(image / 255)
    x[..., 1] = np.clip(x[..., 1] * c[0] + c[1], 0, 1)
    return finished(hsv2rgb(x))


def elastic_transform(image, severity, generator):
    alpha, sigma, affine = [
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ][severity - 1]
    x = np.float32(image) / 255
    before = np.float32([[26, 26], [26, 6], [6, 6]])
    after = before + generator.uniform(-affine, affine, (3, 2)).astype(np.float32)
    matrix = cv2.getAffineTransform(before, after)
    x = cv2.warpAffine(x, matrix, (32, 32), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    dx, dy = (
        gaussian(field, sigma, mode="reflect", truncate=3) * alpha
        for field in generator.uniform(-1, 1, (2, 32, 32))
    )
    row, column, channel = np.meshgrid(np.arange(32), np.arange(32), np.arange(3), indexing="ij")
    where = row + dy[..., np.newaxis], column + dx[..., np.newaxis], channel
    return finished(map_coordinates(x, where, order=1, mode="reflect"))


def pixelate(image, severity, generator):
    side = [30, 28, 27, 24, 20][severity - 1]
    picture = Image.fromarray(image).resize((side, side), Image.BOX)
    return np.array(picture.resize((32, 32), Image.BOX))


def jpeg_compression(image, severity, generator):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=[80, 65, 58, 50, 40][severity - 1], subsampling="4:2:0")
    return np.array(Image.open(file))


# Six of our own


def waves(image, severity, generator):
    angle, periods, phase = (
        generator.uniform(0, np.pi),
        generator.uniform(2, 8),
        generator.uniform(0, 2 * np.pi),
    )
    x = image / 255
    for row in range(32):
        for column in range(32):
            along = math.cos(angle) * (2 * column / 31 - 1) + math.sin(angle) * (2 * row / 31 - 1)
            x[row, column] += [0.06, 0.1, 0.15, 0.2, 0.25][severity - 1] * math.sin(
                math.pi * periods * along + phase
            )
    return finished(x)


def vignette(image, severity, generator):
    x = image / 255
    for row in range(32):
        for column in range(32):
            distance = ((2 * column / 31 - 1) ** 2 + (2 * row / 31 - 1) ** 2) / 2
            x[row, column] *= 1 - [0.3, 0.45, 0.6, 0.75, 0.9][severity - 1] * distance
    return finished(x)


def side_light(image, severity, generator):
    x, angle = image / 255, generator.uniform(0, 2 * np.pi)
    for row in range(32):
        for column in range(32):
            light = math.cos(angle) * (2 * column / 31 - 1) + math.sin(angle) * (2 * row / 31 - 1)
            x[row, column] *= 1 + [0.2, 0.35, 0.5, 0.65, 0.8][severity - 1] * light
    return finished(x)


def hue(image, severity, generator):
    x = rgb2hsv(image / 255)
    x[..., 0] = (x[..., 0] + generator.choice((-1, 1)) * [0.04, 0.08, 0.14, 0.22, 0.35][severity - 1]) % 1
    return finished(hsv2rgb(x))


def ghost(image, severity, generator):
    down, right = (generator.choice((-1, 1)) * round(generator.uniform(1 / 8, 1 / 4) * 32) for _ in range(2))
    second = np.empty_like(image)
    for row in range(32):
        for column in range(32):
            second[(row + down) % 32, (column + right) % 32] = image[row, column]
    share = [0.15, 0.22, 0.3, 0.38, 0.45][severity - 1]
    return finished((1 - share) * (image / 255) + share * (second / 255))


def interlace(image, severity, generator):
    far = generator.choice((-1, 1)) * [1, 2, 3, 4, 5][severity - 1]
    moved = image.copy()
    for row in range(1, 32, 2):
        for column in range(32):
            moved[row, (column + far) % 32] = image[row, column]
    return moved
