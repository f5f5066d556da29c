// Reports like checks.py: one JSON line for each check, and one that fails does not stop the next.

const PATIENCE_MS = 25_000;
const checks = [];

export function check(name, work) {
  checks.push({ name, work });
}

export async function run() {
  for (const { name, work } of checks) {
    let problem = "";
    try {
      await work();
    } catch (error) {
      problem = `${error.stack}`;
    }
    console.log(JSON.stringify({ check: name, problem }));
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function eventually(condition) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`waited ${PATIENCE_MS} ms in vain for ${condition}`);
    await sleep(50);
  }
}
