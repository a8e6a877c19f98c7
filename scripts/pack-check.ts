/**
 * Do the packages work for somebody who only has them? Packs them as npm would publish them, lays them out in an empty folder with the
 * third-party packages that are here, and runs the program from there: its help, `init`, and an `up` that must serve the dashboard
 * and bring its database to this version. Needs a build; needs no network. `npm run pack-check`.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { chmodSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = ['base', 'protocol', 'sensor', 'bellwether'] as const
const place = mkdtempSync(join(tmpdir(), 'bellwether-pack-'))
// The account of the embedded database must reach it.
chmodSync(place, 0o755)

interface Manifest {
  readonly name: string
  readonly dependencies?: Readonly<Record<string, string>>
}

const manifestOf = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest

/** As npm would install it, without a network. */
function install(modules: string): void {
  for (const name of packages) {
    const args = ['pack', '--silent', '--pack-destination', place, '--workspace', join('packages', name)]
    const tarball = execFileSync('npm', args, { cwd: root, encoding: 'utf8' }).trim().split('\n').at(-1)!
    const target = join(modules, manifestOf(join(root, 'packages', name)).name)
    mkdirSync(target, { recursive: true })
    execFileSync('tar', ['xzf', join(place, tarball), '-C', target, '--strip-components=1'])
  }
}

/** Everything but ours, and nothing that is not declared: a package that leans on a stranger's dependency fails here. */
function link(modules: string): void {
  const declared = new Set(
    packages.flatMap((name) => Object.keys(manifestOf(join(root, 'packages', name)).dependencies ?? {})),
  )
  for (const name of declared) {
    if (existsSync(join(modules, name))) continue
    const own = join(root, 'packages', 'bellwether', 'node_modules', name)
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(existsSync(own) ? own : join(root, 'node_modules', name), join(modules, name))
  }
}

async function firstLine(child: ReturnType<typeof spawn>): Promise<Record<string, unknown>> {
  const lines = createInterface({ input: child.stdout! })
  const line = await new Promise<string>((resolve, reject) => {
    lines.once('line', resolve)
    child.once('exit', (code) => reject(new Error(`up ended with ${code} before it was ready`)))
  })
  return JSON.parse(line) as Record<string, unknown>
}

async function serves(main: string, folder: string): Promise<void> {
  const child = spawn(process.execPath, [main, 'up', '--port', '0', '--json', '--parent-pipe'], {
    cwd: folder,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise<unknown>((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
  try {
    const { url, adminKey } = await firstLine(child)
    const page = await fetch(`${String(url)}/`)
    if (!page.ok || !(await page.text()).includes('<script')) throw new Error('the dashboard is not served')
    const turns = await fetch(`${String(url)}/api/v1/projects/default/turns`, {
      headers: { 'x-api-key': String(adminKey) },
    })
    if (!turns.ok) throw new Error(`the API answers ${turns.status}`)
  } finally {
    child.kill('SIGTERM')
  }
  const end = await ended
  if (end !== 0) throw new Error(`up ended with ${String(end)}`)
}

try {
  const modules = join(place, 'node_modules')
  install(modules)
  link(modules)
  const main = join(modules, 'bellwether', 'dist', 'cli', 'main.js')
  const run = (...words: string[]) => execFileSync(process.execPath, [main, ...words], { cwd: place, encoding: 'utf8' })
  if (!run('--help').includes('Usage: bellwether')) throw new Error('--help does not help')
  const folder = join(place, 'project')
  mkdirSync(folder)
  run('init', folder)
  if (!readdirSync(join(folder, 'agents')).includes('greeter.md')) throw new Error('init made no agents')
  await serves(main, folder)
  process.stdout.write('the packed packages work\n')
} finally {
  rmSync(place, { recursive: true, force: true })
}
