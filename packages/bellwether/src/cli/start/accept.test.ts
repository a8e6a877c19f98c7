import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { quietLog } from '../../../test/support/quiet-log.js'
import { openGate } from '../../runtime/control/gate.js'
import type { Project } from '../../runtime/control/trust.js'
import { openFolder, requireTrust } from './accept.js'

let top = ''
let folder = ''
let data = ''
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'bw-accept-'))
  folder = join(top, 'project')
  data = join(top, 'data')
  mkdirSync(join(folder, 'agents'), { recursive: true })
  mkdirSync(data, { mode: 0o700 })
})
afterEach(() => rmSync(top, { recursive: true, force: true }))

const write = (file: string, text: string) => writeFileSync(join(folder, file), text)
const gateOf = ({ files, found }: Project, turns: () => string[]) =>
  openGate({
    project: { folder, root: '.' },
    dataDir: data,
    home: data,
    files,
    found,
    turnsAt: async () => turns(),
    log: quietLog,
  })

it('a restart by a script, with --trust or without, accepts nothing that a turn changed, and starts with the version from before', async () => {
  write('agents/coder.md', 'first')
  let turns: string[] = []
  const gate = await gateOf(await requireTrust(folder, true, { data }), () => turns)
  turns = ['turn-1']
  write('agents/coder.md', '---\ncommand: planted\n---\n')
  write('mcp.json', '{"mcpServers":{"planted":{"command":"planted"}}}')
  write('bellwether.toml', '[server]\nhost = "0.0.0.0"\n')
  await gate.step()
  turns = []
  const planted = ['agents/coder.md', 'bellwether.toml', 'mcp.json']
  expect([...gate.held.keys()]).toEqual(planted)
  for (const trust of [true, false]) {
    const started = await requireTrust(folder, trust, { data })
    expect([...started.files]).toEqual([['agents/coder.md', 'first']])
    expect(openFolder(folder, { data }).held).toEqual(planted)
    expect(
      openFolder(folder, { data })
        .untrusted.map(({ file }) => file)
        .sort(),
    ).toEqual(planted)
    const next = await gateOf(started, () => turns)
    await next.step()
    expect([...next.held.keys()]).toEqual(planted)
  }
  openFolder(folder, { data }).trust()
  const accepted = await requireTrust(folder, false, { data })
  expect([...accepted.files.keys()].sort()).toEqual(planted)
})
