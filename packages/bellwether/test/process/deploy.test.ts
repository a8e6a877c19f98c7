/** The units of deploy/: systemd reads them, they run commands that exist, and they wait longer than the drain of what they run. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Command } from 'commander'
import { describe, expect, it, onTestFinished } from 'vitest'
import { pmoCommand } from '../../src/cli/pmo.js'
import { sensorCommand } from '../../src/cli/sensor.js'
import { serverCommand } from '../../src/cli/server.js'
import { upCommand } from '../../src/cli/up.js'
import { workerCommand } from '../../src/cli/worker.js'

const folder = fileURLToPath(new URL('../../../../deploy', import.meta.url))
const units = readdirSync(folder).filter((name) => name.endsWith('.service'))
const program = '/usr/bin/bellwether'
const done = () => undefined
const commands: Readonly<Record<string, Command>> = {
  up: upCommand(done),
  server: serverCommand(done),
  pmo: pmoCommand(done),
  worker: workerCommand(done),
  sensor: sensorCommand(done),
}
/** Seconds that a part takes at most to stop by itself. */
const drains: Readonly<Record<string, number>> = { up: 60, server: 15, pmo: 5, worker: 20, sensor: 2 }

/** `Section.Key` → its values. */
function parse(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  let section = ''
  for (const line of text.split('\n')) {
    const [, name] = /^\[(\w+)\]$/.exec(line) ?? []
    const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? []
    if (name !== undefined) section = name
    else if (key !== undefined) {
      const full = `${section}.${key}`
      found.set(full, [...(found.get(full) ?? []), value!])
    } else expect(line).toMatch(/^(?:#.*)?$/)
  }
  return found
}

describe.each(units)('%s', (name) => {
  const text = readFileSync(join(folder, name), 'utf8')
  const unit = parse(text)
  const only = (key: string) => {
    expect(unit.get(key), key).toHaveLength(1)
    return unit.get(key)![0]!
  }

  it('runs a command that there is, with options that it has', () => {
    const [path, role = '', ...words] = only('Service.ExecStart').split(' ')
    expect(path).toBe(program)
    const options = commands[role]!.options.map((option) => option.long)
    for (const word of words.filter((one) => one.startsWith('--'))) expect(options).toContain(word)
  })

  it('lets it drain, kills what is left, and starts it again unless its words are wrong', () => {
    const role = only('Service.ExecStart').split(' ')[1]!
    expect(Number(only('Service.TimeoutStopSec'))).toBeGreaterThan(drains[role]!)
    expect(only('Service.KillMode')).toBe('mixed')
    expect(only('Service.Type')).toBe('exec')
    expect(only('Service.Restart')).toMatch(/^(?:always|on-failure)$/)
    expect(only('Service.RestartPreventExitStatus')).toBe('2')
    expect(only('Service.NoNewPrivileges')).toBe('yes')
    expect(text).not.toMatch(/^MemoryDenyWriteExecute/m)
  })
})

const analyze = ['/usr/bin/systemd-analyze', '/bin/systemd-analyze'].find((path) => existsSync(path))

it('systemd finds nothing wrong with any of them', async () => {
  // Without systemd the checks above are all there is.
  if (analyze === undefined) return
  const place = await mkdtemp(join(tmpdir(), 'bellwether-units-'))
  onTestFinished(() => rm(place, { recursive: true, force: true }))
  const paths: string[] = []
  for (const name of units) {
    // The program must be there for systemd to be content.
    const text = readFileSync(join(folder, name), 'utf8').replace(program, process.execPath)
    const path = join(place, name.replace('@', '@default'))
    await writeFile(path, text)
    paths.push(path)
  }
  const { stderr } = await promisify(execFile)(analyze, ['verify', '--man=no', ...paths], { timeout: 20_000 })
  const ours = stderr.split('\n').filter((line) => paths.some((path) => line.includes(path)))
  expect(ours).toEqual([])
})
