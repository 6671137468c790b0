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

// For runners that read sources themselves and give each file of tests a world of its own.
function substituteReads(files, mark, value) {
  const byPath = new Map(Object.entries(files));
  const other = (name, content) => {
    const file = typeof name === 'string' ? byPath.get(name.split('?')[0]) : undefined;
    if (!file) return content;
    if (typeof content === 'string') return content === file.source ? file.text : content;
    return Buffer.isBuffer(content) && content.toString() === file.source ? Buffer.from(file.text) : content;
  };
  const { readFile } = fs.promises;
  fs.readFileSync = function (name, ...rest) {
    return other(name, readFileSync.call(this, name, ...rest));
  };
  fs.promises.readFile = async function (name, ...rest) {
    return other(name, await readFile.call(this, name, ...rest));
  };
  Module.syncBuiltinESMExports();
  const { createContext } = vm;
  vm.createContext = function (...given) {
    const context = createContext.apply(this, given);
    // Enumerable: jest 28 defines again what it does not see in a context.
    Object.defineProperty(context, mark, { value, enumerable: true });
    return context;
  };
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

module.exports = { substitute, substituteReads, below };
