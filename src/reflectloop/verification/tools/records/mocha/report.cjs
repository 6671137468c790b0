// A reporter that every version of mocha can load: it writes the outcomes of all tests into `report` in its own folder.
// The JSON reporter of mocha before 9.2 can write to standard output only, where tests write too.
'use strict';

const fs = require('fs');
const path = require('path');

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
