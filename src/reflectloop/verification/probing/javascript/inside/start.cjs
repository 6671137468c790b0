// Copies a package to where a user would have it, and repeats recorded calls there, in one process for each
// surrounding: `node start.cjs PLAN`. PLAN is a JSON file:
//   {"top", "files": [...], "gone": [...], "into", "programs", "script", "limit_s", "job", "ways": [{"name", "env", "moved"}]}
'use strict';

const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');

const plan = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));

function attempt(work) {
  try {
    work();
  } catch {
    // A file that is not there is not copied, or is gone already.
  }
}

for (const name of plan.files) {
  attempt(() => {
    const target = path.join(plan.into, name);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.cpSync(path.join(plan.top, name), target, { verbatimSymlinks: true });
  });
}
if (plan.files.length) {
  const beside = plan.into.slice(0, plan.into.lastIndexOf('node_modules') + 'node_modules'.length);
  for (const folder of plan.packages) {
    attempt(() => {
      for (const name of fs.readdirSync(path.join(plan.top, folder))) {
        attempt(() => fs.symlinkSync(path.join(plan.top, folder, name), path.join(beside, name)));
      }
    });
  }
}
for (const name of plan.gone) attempt(() => fs.rmSync(path.join(plan.top, name), { recursive: true, force: true }));
fs.mkdirSync(plan.programs, { recursive: true });
for (const name of ['values.cjs', 'loading.cjs', 'guard.cjs', 'histories.cjs', 'hooks.mjs']) {
  fs.copyFileSync(path.join(__dirname, name), path.join(plan.programs, name));
}
const script = path.join(plan.programs, plan.script);
fs.copyFileSync(path.join(__dirname, 'replayer.cjs'), script);
plan.ways.forEach((way, number) => {
  const job = { ...plan.job, top: plan.into, moved: way.moved, out: path.join(path.dirname(process.argv[2]), `${way.name}.jsonl`) };
  const file = path.join(plan.programs, `${number}.json`);
  fs.writeFileSync(file, JSON.stringify(job));
  const env = { ...process.env, ...way.env };
  delete env.NODE_OPTIONS;
  delete env.OLDPWD;
  spawnSync(process.execPath, ['--max-old-space-size=512', script, file], { cwd: plan.into, env, stdio: 'ignore', timeout: plan.limit_s * 1000, killSignal: 'SIGKILL' });
});
