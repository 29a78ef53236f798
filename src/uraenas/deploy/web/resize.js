// Pictures resized as Pillow does it: by a triangle as wide as what becomes one pixel, in whole numbers, across first.
const bits = 22;  // of a weight
const strip = 1 << 20;  // pixels that are read at a time
function weights(from, to) {
  const scale = from / to;
  const reach = Math.max(scale, 1);
  return Array.from({ length: to }, (_, place) => {
    const centre = (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - reach + 0.5));
    const last = Math.min(from, Math.trunc(centre + reach + 0.5));
    const shares = Array.from({ length: last - first }, (_, step) => Math.max(0, 1 - Math.abs((first + step - centre + 0.5) / reach)));
    const sum = shares.reduce((one, other) => one + other, 0);
    return { first, shares: Int32Array.from(shares, (share) => Math.trunc(0.5 + (share / sum) * 2 ** bits)) };
  });
}
// One line of `found`, from values that lie `step` apart.
function squeeze(values, start, step, found, target, stride, table) {
  for (const { first, shares } of table) {
    let sum = 2 ** (bits - 1);
    for (let k = 0, at = start + first * step; k < shares.length; k += 1, at += step) sum += values[at] * shares[k];
    found[target] = Math.min(255, sum >> bits);
    target += stride;
  }
}
// A line of means of squares, `square` pixels a side, which are cut off at the right and the lower edge.
function means(data, width, height, top, square, found) {
  const bottom = Math.min(top + square, height);
  for (let place = 0; place * square < width; place += 1) {
    const left = place * square;
    const right = Math.min(left + square, width);
    const count = (right - left) * (bottom - top);
    for (let colour = 0; colour < 3; colour += 1) {
      let sum = count >> 1;
      for (let row = top; row < bottom; row += 1) for (let column = left; column < right; column += 1) sum += data[4 * (row * width + column) + colour];
      found[3 * place + colour] = Math.floor(sum / count);
    }
  }
}
// `rows(top, count)` gives lines of RGBA. With `square` above 1 it is first made smaller by means.
function resized(width, height, rows, to, square = 1) {
  const [narrow, short] = [Math.ceil(width / square), Math.ceil(height / square)];
  const [across, down] = [weights(narrow, to.width), weights(short, to.height)];
  const line = new Uint8Array(3 * narrow);
  const tall = new Uint8Array(3 * to.width * short);
  const most = square * Math.max(1, Math.floor(strip / width / square));
  for (let top = 0; top < height; top += most) {
    const count = Math.min(most, height - top);
    const data = rows(top, count);
    for (let row = 0; row < count; row += square) {
      means(data, width, count, row, square, line);
      const target = 3 * to.width * ((top + row) / square);
      for (let colour = 0; colour < 3; colour += 1) squeeze(line, colour, 3, tall, target + colour, 3, across);
    }
  }
  const found = new Uint8Array(3 * to.width * to.height);
  for (let column = 0; column < 3 * to.width; column += 1) squeeze(tall, column, 3 * to.width, found, column, 3 * to.width, down);
  return found;
}
// So many pixels a side of a JPEG become one when Pillow decodes it for this size. It counts them from the file's first
// corner, here from the upright picture's, which differs where a picture that lies has an odd size.
function square_of(width, height, to) {
  const scale = Math.min(Math.floor(width / (2 * to.width)), Math.floor(height / (2 * to.height)));
  return [8, 4, 2].find((square) => scale >= square) || 1;
}
// Colours as they are in the file, of the picture as it stands upright.
const decoded = (file) => createImageBitmap(file, { colorSpaceConversion: 'none' });
// RGB of a decoded picture in another size; what is transparent is white.
async function smaller_pixels(file, picture, to) {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const is_jpeg = first === 0xff && second === 0xd8;
  const { width, height } = picture;
  const canvas = document.createElement('canvas');
  const paint = canvas.getContext('2d', { willReadFrequently: true });
  const rows = (top, count) => {
    [canvas.width, canvas.height] = [width, count];
    paint.fillStyle = 'white';
    paint.fillRect(0, 0, width, count);
    paint.drawImage(picture, 0, -top);
    return paint.getImageData(0, 0, width, count).data;
  };
  return resized(width, height, rows, to, is_jpeg ? square_of(width, height, to) : 1);
}
