// A server predicts.
const most = 1600;  // pixels a side that are sent; a camera's picture is made smaller first
function headers(more) {
  const token = at('token').value;
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}
async function smaller(file) {
  try {
    const picture = await createImageBitmap(file);
    const scale = most / Math.max(picture.width, picture.height);
    if (scale >= 1) return file;
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(picture.width * scale);
    canvas.height = Math.round(picture.height * scale);
    canvas.getContext('2d').drawImage(picture, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob((blob) => done(blob || file), 'image/png'));
  } catch { return file; }  // the server says what is wrong with it
}
async function ask(file) {
  const answer = await fetch('api/predict', { method: 'POST', body: await smaller(file), headers: headers({ 'Content-Type': 'application/octet-stream' }) });
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
  return `${found.members} member${found.members === 1 ? ' tells' : 's tell'} apart: ${listed(found.classes)}.`;
}
