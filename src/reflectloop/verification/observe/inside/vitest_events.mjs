// A reporter of Vitest, in the process that starts the others: it adds a set-up file of ours to every project.
// The line before this text defines `values`: the file of the observer, and the set-up file that is written here.
import { writeFileSync } from 'fs';
import { createRequire } from 'module';
import path from 'path';
import { pathToFileURL } from 'url';

export default class {
  onInit(vitest) {
    const load = createRequire(path.join(vitest.config.root || process.cwd(), 'x.js'));
    const folder = path.dirname(load.resolve('vitest/package.json'));
    const main = pathToFileURL(path.join(folder, 'dist', 'index.js')).href;
    writeFileSync(
      values.setup,
      `import { createRequire } from 'module';\nimport { afterAll, afterEach, expect } from ${JSON.stringify(main)};\n` +
        `createRequire(${JSON.stringify(values.setup)})(${JSON.stringify(values.observer)})({ afterAll, afterEach, expect });\n`,
    );
    const configs = new Set([vitest.config, ...(vitest.projects || []).map((project) => project.config)]);
    for (const config of configs) config.setupFiles = [values.setup, ...(config.setupFiles || [])];
  }
}
