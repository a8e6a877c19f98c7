/**
 * Starts a worker thread from a module beside the caller. From source, the thread loads TypeScript through tsx. Not part of the index,
 * because browsers import that.
 */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'

// A sensor's rows are short-lived text: a larger young generation makes scans one third faster (measured on 2 busy cores).
const resourceLimits = { maxYoungGenerationSizeMb: 32 }

/** `module` is a path relative to `base`, without extension. */
export function startThread(module: string, base: string, data: unknown): Worker {
  if (!base.endsWith('.ts'))
    return new Worker(new URL(`${module}.js`, base), { workerData: data, execArgv: [], resourceLimits })
  const file = new URL(`${module}.ts`, base).href
  const loader = pathToFileURL(
    createRequire(base)
      .resolve('tsx/esm/api')
      .replace(/\.cjs$/, '.mjs'),
  ).href
  const code = `import(${JSON.stringify(loader)}).then((tsx) => { tsx.register(); return import(${JSON.stringify(file)}) })`
  return new Worker(code, { eval: true, workerData: data, execArgv: ['--conditions=@bellwether/source'] })
}
