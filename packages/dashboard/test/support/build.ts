/**
 * Before the tests of a run: builds the pages if they are older than their source, and starts the Chromium that all test
 * files share.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import type { TestProject } from 'vitest/node'

export const home = dirname(dirname(dirname(fileURLToPath(import.meta.url))))

declare module 'vitest' {
  interface ProvidedContext {
    /** The endpoint of the shared browser. */
    readonly browser: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const executablePath = installed()
  build()
  const browser = await chromium.launchServer({
    executablePath,
    // Root may not use the sandbox, and a container's /dev/shm is small.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
  project.provide('browser', browser.wsEndpoint())
  return () => browser.close()
}

function build(): void {
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

/** The path of Chromium. */
function installed(): string {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    try {
      return execFileSync('which', [name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    } catch (error) {
      // `which` exits with 1 if it finds nothing.
      if ((error as { status?: unknown }).status !== 1) throw error
    }
  }
  throw new Error(
    'Cannot find Chromium, which the tests of the dashboard need. Install it: apt-get install -y chromium',
  )
}
