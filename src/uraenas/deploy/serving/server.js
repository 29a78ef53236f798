// A server predicts.
const side = 1600;  // pixels of a picture that the server would not take as it is, and half as many until it does
let most = { megabytes: 20, pixels: 5e7 };  // that the server takes
function headers(more) {
  const token = at('token').value;
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}
async function area(file) {
  const image = new Image();
  image.src = URL.createObjectURL(file);
  try { await new Promise((done, fail) => { image.onload = done; image.onerror = fail; }); } finally { URL.revokeObjectURL(image.src); }
  return image.naturalWidth * image.naturalHeight;
}
async function shrunk(file, picture, longest) {
  const scale = Math.min(1, longest / Math.max(picture.width, picture.height));
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [picture.width, picture.height].map((size) => Math.max(1, Math.round(size * scale)));
  const found = await smaller_pixels(file, picture, canvas);
  const image = new ImageData(canvas.width, canvas.height);
  image.data.fill(255);
  for (let place = 0; place < found.length; place += 1) image.data[place + Math.floor(place / 3)] = found[place];
  canvas.getContext('2d').putImageData(image, 0, 0);
  return new Promise((done) => canvas.toBlob(done, 'image/png'));
}
async function acceptable(file) {
  const fits = (one) => one.size <= 1e6 * most.megabytes;
  try {
    if (fits(file) && await area(file) <= most.pixels) return file;
    const picture = await decoded(file);
    try {
      let longest = Math.min(side, Math.max(picture.width, picture.height));
      let found = await shrunk(file, picture, longest);
      while (!fits(found) && longest > 100) {
        longest /= 2;
        found = await shrunk(file, picture, longest);
      }
      return found;
    } finally { picture.close(); }
  } catch { return file; }  // the server says what is wrong with it
}
async function ask(file) {
  const answer = await fetch('api/predict', { method: 'POST', body: await acceptable(file), headers: headers({ 'Content-Type': 'application/octet-stream' }) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found.predictions[0];
}
async function about() {
  const answer = await fetch('api/model', { headers: headers({}) });
  at('asks').hidden = answer.status !== 401;
  if (!answer.ok) return '';
  const found = await answer.json();
  absent = found.undefined;
  most = found;
  return `${found.members} member${found.members === 1 ? ' tells' : 's tell'} apart: ${listed(found.classes)}.`;
}
