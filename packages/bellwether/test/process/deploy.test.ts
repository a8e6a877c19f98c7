/** Checks the units of deploy/: systemd accepts them, their commands and options exist, and they wait longer than the drain. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { pmoCommand } from '../../src/cli/processes/pmo.js'
import { sensorCommand } from '../../src/cli/processes/sensor.js'
import { serverCommand } from '../../src/cli/processes/server.js'
import { upCommand } from '../../src/cli/start/up.js'
import { workerCommand } from '../../src/cli/processes/worker.js'
import { tempFolder } from '../support/disk/temp-folder.js'

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
/** The maximum drain of each process, in seconds. */
const drains: Readonly<Record<string, number>> = { up: 60, server: 15, pmo: 5, worker: 20, sensor: 2 }

/** Values by `Section.Key`. */
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

  it('runs an existing command with existing options', () => {
    const [path, role = '', ...words] = only('Service.ExecStart').split(' ')
    expect(path).toBe(program)
    const options = commands[role]!.options.map((option) => option.long)
    for (const word of words.filter((one) => one.startsWith('--'))) expect(options).toContain(word)
  })

  it('waits for the drain, kills the rest, and restarts unless the usage is wrong', () => {
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

it('passes systemd-analyze verify', async () => {
  // Without systemd, the checks above must suffice.
  if (analyze === undefined) return
  const copies = tempFolder('units')
  const paths: string[] = []
  for (const name of units) {
    // systemd-analyze requires that the program exists.
    const text = readFileSync(join(folder, name), 'utf8').replace(program, process.execPath)
    const path = join(copies, name.replace('@', '@default'))
    await writeFile(path, text)
    paths.push(path)
  }
  const { stderr } = await promisify(execFile)(analyze, ['verify', '--man=no', ...paths], { timeout: 120_000 })
  const ours = stderr.split('\n').filter((line) => paths.some((path) => line.includes(path)))
  expect(ours).toEqual([])
})
