// Lets Node.js load other texts for some files: texts in which calls of functions can be followed.
'use strict';

const Module = require('module');
const fs = require('fs');
const path = require('path');
const vm = require('vm');
const { pathToFileURL } = require('url');

const { readFileSync } = fs;

// `files` has {source, text, esm} by absolute path. A file whose content is not `source` is loaded as it is.
function substitute(files, loaded = () => {}) {
  const byPath = new Map(Object.entries(files));
  const compile = Module.prototype._compile;
  Module.prototype._compile = function (content, filename, ...rest) {
    const file = byPath.get(filename);
    const text = file && !file.esm && content === file.source && isValid(file.text) ? file.text : content;
    if (text !== content) loaded(filename);
    return compile.call(this, text, filename, ...rest);
  };
  if ([...byPath.values()].some((file) => file.esm) && typeof Module.register === 'function') {
    const urls = {};
    for (const [name, file] of byPath) if (file.esm) urls[pathToFileURL(name).href] = file;
    Module.register(pathToFileURL(path.join(__dirname, 'hooks.mjs')).href, { data: urls });
  }
}

function isValid(text) {
  try {
    new vm.Script(Module.wrap(text.replace(/^#!.*/, '')));
    return true;
  } catch {
    return false;
  }
}

// The texts of a job, by absolute path below a folder; a source is read from the file itself.
function below(top, files) {
  const out = {};
  for (const [name, file] of Object.entries(files)) out[path.join(top, name)] = file;
  return out;
}

module.exports = { substitute, below, readFileSync };
