/**
 * Starts a worker thread from a module beside the caller. From source, the thread loads TypeScript through tsx. Not part of the index,
 * because browsers import that.
 */
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker, type WorkerOptions } from 'node:worker_threads'

// A sensor's rows are short-lived text: a larger young generation makes scans one third faster (measured on 2 busy cores).
const resourceLimits = { maxYoungGenerationSizeMb: 32 }

const isSource = (base: string) => base.endsWith('.ts')
const sourceConditions = '--conditions=@bellwether/source'

/** `module` is a path relative to `base`, without extension. */
export function startThread(
  module: string,
  base: string,
  data: unknown,
  options: WorkerOptions = { execArgv: [], resourceLimits },
): Worker {
  if (!isSource(base)) return new Worker(new URL(`${module}.js`, base), { ...options, workerData: data })
  const file = new URL(`${module}.ts`, base).href
  const loader = tsxModule('tsx/esm/api', base)
  const code = `import(${JSON.stringify(loader)}).then((tsx) => { tsx.register(); return import(${JSON.stringify(file)}) })`
  return new Worker(code, { ...options, eval: true, workerData: data, execArgv: [sourceConditions] })
}

/** The arguments of node that run a module beside the caller as a process. */
export function nodeArguments(module: string, base: string): string[] {
  const file = fileURLToPath(new URL(`${module}.${isSource(base) ? 'ts' : 'js'}`, base))
  return isSource(base) ? ['--import', tsxModule('tsx', base), sourceConditions, file] : [...process.execArgv, file]
}

const tsxModule = (name: string, base: string) =>
  pathToFileURL(
    createRequire(base)
      .resolve(name)
      .replace(/\.cjs$/, '.mjs'),
  ).href
