// The visitor's machine predicts: an ONNX model, run by ONNX Runtime Web. Nothing is sent anywhere.
const here = new URL('.', location.href);
ort.env.wasm.wasmPaths = new URL('runtime/', here).href;
ort.env.wasm.numThreads = crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
ort.env.logLevel = 'error';
const facts_of = fetch(new URL('facts.json', here)).then((answer) => answer.json());
const session = ort.InferenceSession.create(new URL('model.onnx', here).href, { executionProviders: ['wasm'] });
let last = Promise.resolve();  // one image after another
async function pixels(file, [height, width, channels], values) {
  const picture = await decoded(file).catch(() => { throw new Error('this is no image that the browser can read'); });
  const note = picture.width === width && picture.height === height ? '' : `resized from ${picture.width}×${picture.height}`;
  const data = await smaller_pixels(file, picture, { width, height }).finally(() => picture.close());
  const found = values === 'bytes' ? new Uint8Array(height * width * channels) : new Float32Array(height * width * channels);
  const unit = values === 'bytes' ? 1 : 255;
  for (let place = 0; place < height * width; place += 1) {
    const [red, green, blue] = data.subarray(3 * place, 3 * place + 3);
    if (channels === 3) found.set([red / unit, green / unit, blue / unit], 3 * place);
    else found[place] = ((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16) / unit;  // grey as Pillow has it
  }
  return { tensor: new ort.Tensor(values === 'bytes' ? 'uint8' : 'float32', found, [1, height, width, channels]), note };
}
async function ask(file) {
  const facts = await facts_of;
  absent = facts.undefined;
  const { tensor, note } = await pixels(file, facts.image, facts.values);
  const model = await session;
  const running = last.then(() => model.run({ images: tensor }));
  last = running.catch(() => {});
  const found = await running;
  const probability = [...found.probabilities.data];
  const order = probability.map((_, place) => place).sort((one, other) => probability[other] - probability[one]);
  const row = { label: facts.classes[order[0]], probability: probability[order[0]], note };
  for (const name of ['total', 'data', 'weights', 'architecture']) row[name] = found[name].data[0];
  if (found.p_value) {
    row.p_value = found.p_value.data[0];
    row.foreign = row.p_value <= Math.fround(facts.rule.share);  // in float32 both, as the model compares them
    row.abstain = Boolean(found.abstain.data[0]);
    row.prediction_set = order.filter((place) => found.prediction_set.data[place]).map((place) => facts.classes[place]);
  }
  return row;
}
async function about() {
  const facts = await facts_of;
  await session;
  const count = facts.architectures.length;
  return `${count} member${count === 1 ? '' : 's'}, run on this machine, tell${count === 1 ? 's' : ''} apart: ${listed(facts.classes)}.`;
}
