/** Before the tests: builds the pages if they are older than their source, and checks that Chromium is installed. */
import { execFileSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const home = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

export default function setup(): void {
  chromium()
  const sources = ['src', 'public', 'index.html', 'vite.config.ts', 'package.json']
  const newest = Math.max(...sources.flatMap((name) => times(join(home, name))))
  const built = Math.min(...times(join(home, 'dist')), Infinity)
  if (built < Infinity && built >= newest) return
  const vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js')
  // In a process of its own: a test runner's NODE_ENV would make it a build for development.
  const env = { ...process.env, NODE_ENV: 'production' }
  execFileSync(process.execPath, [vite, 'build', '--logLevel', 'warn'], {
    cwd: home,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

function times(path: string): number[] {
  const entry = statSync(path, { throwIfNoEntry: false })
  if (entry === undefined) return []
  if (!entry.isDirectory()) return [entry.mtimeMs]
  return readdirSync(path).flatMap((name) => times(join(path, name)))
}

/** Where the browser is. */
export function chromium(): string {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    } catch (error) {
      // `which` answers 1 for what is not there.
      if ((error as { status?: unknown }).status !== 1) throw error
    }
  }
  throw new Error(
    'Chromium is missing: the dashboard is tested in a real browser. Install it: apt-get install -y chromium',
  )
}
