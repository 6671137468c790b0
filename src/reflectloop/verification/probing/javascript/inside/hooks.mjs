// Hands the loader of ES modules other texts for some files.
let files = {};

export function initialize(data) {
  files = data;
}

export async function load(url, context, next) {
  const result = await next(url, context);
  const file = files[url.split('?')[0]];
  if (!file || result.format !== 'module' || String(result.source ?? '') === '') return result;
  const content = typeof result.source === 'string' ? result.source : Buffer.from(result.source).toString();
  return content === file.source ? { ...result, source: file.text } : result;
}
