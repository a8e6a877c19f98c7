/**
 * `npm run bench -- sandbox`: how long it takes to start and end /bin/true without a sandbox, and in each kind of sandbox that works here for the
 * account that runs it, without and with a network. The kinds take turns, so that a change of the load meets all of them.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSelf } from '../src/ports/processes/proc.js'
import { findSandbox } from '../src/ports/processes/sandbox/available.js'
import { noSandbox, openSandbox, type Sandbox, type SandboxSpec } from '../src/ports/processes/sandbox/sandbox.js'
import { makeScratch } from '../src/ports/processes/scratch.js'
import { quietLog } from '../test/support/quiet-log.js'
import { machine } from './machine.js'
import { percentile } from './measure.js'

export interface SandboxBenchOptions {
  readonly quick: boolean
  readonly onProgress: (line: string) => void
}

interface Variant {
  readonly name: string
  readonly sandbox: Sandbox
  readonly spec: SandboxSpec
}

export async function benchSandbox({ quick, onProgress }: SandboxBenchOptions): Promise<object> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-sandbox-'))
  try {
    const variants: Variant[] = [{ name: 'none', sandbox: noSandbox, spec: {} }]
    for (const kind of ['bubblewrap', 'namespaces'] as const) {
      const found = findSandbox(undefined, kind)
      if (found.kind === undefined) {
        onProgress(`${kind} does not work here: ${found.why}`)
        continue
      }
      const project = join(folder, kind)
      mkdirSync(project)
      const sandbox = openSandbox({
        log: quietLog,
        ...{ root: project, fallback: 'workspace', missing: 'refuse', kind },
        ...{ sessions: join(folder, 'sessions'), hidden: [], control: [] },
      })
      for (const network of ['off', 'on'] as const)
        variants.push({ name: `${kind}, network ${network}`, sandbox, spec: { network } })
    }
    const rounds = quick ? 11 : 101
    const ran = new Map(variants.map(({ name }) => [name, [] as number[]]))
    // The first round fills caches.
    for (let round = 0; round <= rounds; round += 1)
      for (const variant of variants) {
        const ms = await startOnce(variant, folder)
        if (round > 0) ran.get(variant.name)!.push(ms)
      }
    const figures = Object.fromEntries(
      [...ran].map(([name, all]) => {
        const sorted = all.toSorted((a, b) => a - b)
        return [name, { p50_ms: rounded(percentile(sorted, 0.5)), p90_ms: rounded(percentile(sorted, 0.9)) }]
      }),
    )
    return {
      bench: 'sandbox',
      quick,
      starts: rounds,
      uid: process.geteuid?.(),
      load: loadavg()[0],
      figures,
      machine: machine(),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const rounded = (ms: number) => Math.round(ms * 10) / 10

/** From the request for a sandbox to the end of the program. */
async function startOnce({ sandbox, spec, name }: Variant, folder: string): Promise<number> {
  const workspace = join(folder, name.split(',')[0]!)
  mkdirSync(workspace, { recursive: true })
  const scratch = makeScratch(readSelf())
  const started = performance.now()
  const env = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/nonexistent' }
  const inside = await sandbox.enter({
    ...{ spec, agentId: 'bench', command: ['/bin/true'], env, cwd: workspace, workspace, scratch, cli: {} },
  })
  try {
    const [program = '', ...args] = inside.command
    const child = spawn(program, args, {
      cwd: workspace,
      env: inside.env,
      stdio: ['ignore', 'ignore', 'pipe', ...(inside.onMessage === undefined ? [] : (['ipc'] as const))],
    })
    let stderr = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    child.on('message', (message, handle) => inside.onMessage?.(message, handle))
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    if (code !== 0) throw new Error(`${name}: /bin/true ended with ${code}: ${stderr}`)
    return performance.now() - started
  } finally {
    inside.close()
    scratch.remove()
  }
}
