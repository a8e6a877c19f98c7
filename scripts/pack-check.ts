/**
 * Checks the packages as npm would publish them: packs them, installs them into an empty folder with the third-party
 * packages of this clone, and runs `bellwether` there: help, `init`, and an `up` that must serve the dashboard and migrate its
 * database. Needs a build and no network. Run it with `npm run pack-check`.
 */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { missingDocs, namedDocs } from './named-docs.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = ['base', 'protocol', 'sensor', 'bellwether', 'demo'] as const
const folder = mkdtempSync(join(tmpdir(), 'bellwether-pack-'))
// The account of the embedded database must be able to enter it.
chmodSync(folder, 0o755)

interface Manifest {
  readonly name: string
  readonly dependencies?: Readonly<Record<string, string>>
}

const manifestOf = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest

/** Does what `npm install` does with our tarballs, without a network. */
function install(modules: string): void {
  for (const name of packages) {
    const args = ['pack', '--silent', '--pack-destination', folder, '--workspace', join('packages', name)]
    const tarball = execFileSync('npm', args, { cwd: root, encoding: 'utf8' }).trim().split('\n').at(-1)!
    const target = join(modules, manifestOf(join(root, 'packages', name)).name)
    mkdirSync(target, { recursive: true })
    execFileSync('tar', ['xzf', join(folder, tarball), '-C', target, '--strip-components=1'])
  }
}

function checkBillOfMaterials(modules: string): void {
  const sbom = JSON.parse(readFileSync(join(modules, 'bellwether', 'sbom.cdx.json'), 'utf8')) as {
    components: object[]
  }
  if (sbom.components.length === 0) throw new Error('sbom.cdx.json lists no package')
}

/** An installed package has no clone beside it: what its errors name must be in it. */
function checkDocs(modules: string): void {
  const own = join(modules, 'bellwether')
  for (const file of ['README.md', 'LICENSE', 'docs/start.md', 'docs/index.md'])
    if (!existsSync(join(own, file))) throw new Error(`the package has no ${file}`)
  for (const name of packages) {
    const { name: full } = manifestOf(join(root, 'packages', name))
    const missing = missingDocs(namedDocs(join(modules, full, 'dist'), '.js'), own)
    if (missing.length > 0) throw new Error(`the package does not have ${missing.join('; ')}`)
  }
  checkLinks(own)
}

// What only a clone has: the READMEs of its folders, for people who change the code.
const ofClone = /^(?:packages|scripts)\//

/** A page of the package must not link to a file that only the clone has. */
function checkLinks(own: string): void {
  const pages = readdirSync(join(own, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((page) => page.endsWith('.md'))
    .map((page) => join('docs', page))
  const broken = ['README.md', ...pages].flatMap((page) =>
    [...readFileSync(join(own, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^[a-z]+:/.test(link))
      .map((link) => normalize(join(dirname(page), link)))
      .filter((target) => !ofClone.test(target) && !existsSync(join(own, target)))
      .map((target) => `${page} → ${target}`),
  )
  if (broken.length > 0) throw new Error(`the package lacks what its pages link to: ${broken.join('; ')}`)
}

/** Links the declared dependencies only: a package that imports an undeclared one fails here. */
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
    child.once('exit', (code) => reject(new Error(`bellwether up exited with ${code} before it was ready`)))
  })
  return JSON.parse(line) as Record<string, unknown>
}

// `init` records in the state folder that it wrote the files, and `up` runs without a question only then.
const env = { ...process.env, XDG_STATE_HOME: join(folder, 'state') }

async function checkUp(bin: string, project: string): Promise<void> {
  const child = spawn(bin, ['up', '--port', '0', '--json', '--parent-pipe'], {
    cwd: project,
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = new Promise<unknown>((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
  try {
    const { url, adminKey } = await firstLine(child)
    const page = await fetch(`${String(url)}/`)
    if (!page.ok || !(await page.text()).includes('<script'))
      throw new Error('bellwether up does not serve the dashboard')
    const turns = await fetch(`${String(url)}/api/v1/projects/default/turns`, {
      headers: { 'x-api-key': String(adminKey) },
    })
    if (!turns.ok) throw new Error(`GET /turns returned ${turns.status}`)
  } finally {
    child.kill('SIGTERM')
  }
  const end = await ended
  if (end !== 0) throw new Error(`bellwether up exited with ${String(end)}`)
}

try {
  const modules = join(folder, 'node_modules')
  install(modules)
  checkBillOfMaterials(modules)
  checkDocs(modules)
  link(modules)
  const bin = join(modules, 'bellwether', 'bin', 'bellwether.js')
  const run = (...words: string[]) => execFileSync(bin, words, { cwd: folder, env, encoding: 'utf8' })
  if (!run('--help').includes('Usage: bellwether')) throw new Error('bellwether --help does not print the usage')
  const project = join(folder, 'project')
  mkdirSync(project)
  run('init', project)
  if (!readdirSync(join(project, 'agents')).includes('greeter.md')) throw new Error('bellwether init wrote no agents')
  await checkUp(bin, project)
  const imports = `import { open } from 'bellwether'
    import { openClient } from 'bellwether/client'
    import { runDemo } from '@bellwether/demo'
    console.log([open, openClient, runDemo].map((one) => typeof one).join())`
  const args = ['--input-type=module', '--eval', imports]
  const types = execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).trim()
  if (types !== 'function,function,function') throw new Error(`the packages export ${types}`)
  process.stdout.write('the packed packages work\n')
} finally {
  rmSync(folder, { recursive: true, force: true })
}
