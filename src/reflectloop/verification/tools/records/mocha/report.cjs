// A reporter that every version of mocha can load: it writes the outcomes of all tests into `report` in its own folder.
// The JSON reporter of mocha before 9.2 can write to standard output only, where tests write too.
'use strict';

const fs = require('fs');
const path = require('path');

// Node loads this file before mocha too: mocha 6 and 7 refuse a second reporter, so that of the project is left out.
const own = `--reporter=${__filename}`;
if (/^_?mocha/.test(path.basename(process.argv[1] || '')) && process.argv.includes(own)) {
  const options = process.argv.slice(2);
  const isReporter = (word) => /^(-R|--reporter)(=|$)/.test(word) && word !== own;
  const isValue = (at) => at > 0 && ['-R', '--reporter'].includes(options[at - 1]);
  process.argv.splice(2, options.length, ...options.filter((word, at) => !isReporter(word) && !isValue(at)));
  const rest = (process.env.NODE_OPTIONS || '').split(`--require ${__filename}`).join('').trim();
  if (rest) process.env.NODE_OPTIONS = rest;
  else delete process.env.NODE_OPTIONS;
}

const outcomes = { pass: 'passes', fail: 'failures', pending: 'pending' };

module.exports = function (runner) {
  const found = { stats: {}, passes: [], failures: [], pending: [] };
  for (const [event, list] of Object.entries(outcomes)) {
    runner.on(event, (test, error) => {
      const told = error || test.err || {};
      const err = list === 'failures' ? { message: `${told.message}`, stack: `${told.stack || ''}` } : {};
      found[list].push({ title: test.title, fullTitle: test.fullTitle(), file: test.file, err });
    });
  }
  runner.once('end', () => {
    found.stats = { tests: found.passes.length + found.failures.length + found.pending.length };
    fs.writeFileSync(path.join(__dirname, 'report'), JSON.stringify(found));
  });
};
