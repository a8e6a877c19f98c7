/**
 * Builds the program and the dashboard of a clone when `dist` is missing or older than `src`. The build runs as a child
 * under `flock`, so that two commands started at once build one after the other and the second finds everything built.
 * Not part of the published package.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const packages = join(root, 'packages')
const main = join(packages, 'bellwether', 'dist', 'cli', 'main.js')
const script = fileURLToPath(import.meta.url)

/** What each build writes last, and the packages whose source it reads. */
const outputs = [
  { file: join(packages, 'base', 'tsconfig.tsbuildinfo'), sources: ['base'] },
  { file: join(packages, 'protocol', 'tsconfig.tsbuildinfo'), sources: ['protocol'] },
  { file: join(packages, 'sensor', 'tsconfig.tsbuildinfo'), sources: ['sensor'] },
  { file: join(packages, 'bellwether', 'tsconfig.tsbuildinfo'), sources: ['bellwether'] },
  { file: join(packages, 'demo', 'tsconfig.tsbuildinfo'), sources: ['demo'] },
  { file: join(packages, 'dashboard', 'dist', 'index.html'), sources: ['base', 'protocol', 'dashboard'] },
]

/** Builds if needed. Returns why the program cannot run, or undefined when it can. */
export function buildIfStale() {
  const reason = staleReason()
  if (reason === undefined) return undefined
  if (!writable(join(packages, 'bellwether'))) {
    if (!existsSync(main))
      return `Cannot build in ${root}: the folder is not writable. Ask its owner to run: npm run build`
    process.stderr.write(`bellwether: ${reason}, and ${root} is not writable; running the existing build\n`)
    return undefined
  }
  // The lock is on the folder itself: it needs no file of its own, and the kernel releases it when the build ends or dies.
  const locked = [join(packages, 'bellwether'), process.execPath, script]
  const { error, status } = spawnSync('flock', locked, { stdio: ['ignore', 2, 2] })
  if (error?.code === 'ENOENT') {
    return 'Cannot build: the program "flock" is missing. Install util-linux, or run: npm run build'
  }
  if (error !== undefined) return `Cannot build: ${error.message}`
  if (status !== 0) return 'The build failed. Fix the errors above, or run `npm ci` if packages are missing.'
  return undefined
}

/** Why a build is needed, or undefined when everything is built. */
function staleReason() {
  if (!existsSync(main)) return 'dist is missing'
  for (const { file, sources } of outputs) {
    const built = statSync(file, { throwIfNoEntry: false })?.mtimeMs
    if (built === undefined) return `${file.slice(root.length)} is missing`
    if (sources.some((name) => changedAfter(join(packages, name, 'src'), built))) {
      return `${file.slice(root.length)} is older than the source`
    }
  }
  return undefined
}

/** Tests are not built, and SQL is read from `src`. */
function changedAfter(folder, time) {
  return readdirSync(folder, { withFileTypes: true, recursive: true }).some(
    (entry) =>
      entry.isFile() &&
      /\.(ts|tsx|css)$/.test(entry.name) &&
      !/\.test\.tsx?$/.test(entry.name) &&
      statSync(join(entry.parentPath ?? entry.path, entry.name), { throwIfNoEntry: false })?.mtimeMs > time,
  )
}

function writable(folder) {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Runs with the lock held. Another command may have built while this one waited. */
function build() {
  const reason = staleReason()
  if (reason === undefined) return 0
  process.stderr.write(`bellwether: ${reason}; building\n`)
  const startedAt = performance.now()
  const run = (command, ...args) => {
    const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
    if (status !== 0) process.stderr.write(error === undefined ? stdout + stderr : `${error.message}\n`)
    return status === 0
  }
  // Without dist, the files with which tsc skips unchanged projects would make it skip all of them.
  const force = existsSync(main) ? [] : ['--force']
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const built =
    run(process.execPath, tsc, '-b', ...force, join('packages', 'demo')) &&
    run('npm', 'run', '--silent', 'build', '--workspace', join('packages', 'dashboard'))
  if (!built) return 1
  process.stderr.write(`bellwether: built in ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`)
  return 0
}

if (process.argv[1] === script) process.exitCode = build()
