import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock, systemRandom } from '@bellwether/base'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { migrateConfig } from '../../../src/board/repair/migrate-run.js'
import { systemDisk, type Disk } from '../../../src/ports/disk/disk.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { runCli } from '../../support/process.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let root: string
let file: string
beforeEach(() => {
  root = tempFolder('migrate')
  mkdirSync(join(root, 'config'))
  file = join(root, 'config', 'runtime-policy.json')
})

const clock: Clock = { ...systemClock, wallMs: () => Date.parse('2026-03-01T10:00:00.700Z') }
const ports = { disk: systemDisk, clock, ids: uuidv7(systemClock, systemRandom) }
const backups = () =>
  existsSync(join(root, 'state')) ? readdirSync(join(root, 'state', 'config-migration-backups')).sort() : []
const old = '{"agents":["coder"],"orchestrator":{"maxConcurrentSpawns":1}}'

describe('migrate-config-v2', () => {
  it('[H9.1] migrate-config-v2 shows what would change and writes nothing without apply', async () => {
    writeFileSync(file, old)
    const dry = await migrateConfig(root, false, ports)
    expect(dry).toMatchObject({
      ok: true,
      changed: true,
      applied: false,
      wouldWrite: true,
      risks: [],
      summary: expect.stringContaining('would migrate'),
    })
    expect(dry.diff.sampleAdded).toContain('orchestrator.retryPolicy.maxAttempts')
    expect(readFileSync(file, 'utf8')).toBe(old)
    expect(readdirSync(root)).toEqual(['config'])
  })

  it('[H9.3] apply backs up the exact bytes first, and says how to undo', async () => {
    writeFileSync(file, old)
    const done = await migrateConfig(root, true, ports)
    const backup = 'state/config-migration-backups/runtime-policy.20260301T100000Z.json'
    expect(done).toMatchObject({
      ok: true,
      applied: true,
      backup,
      rollbackHint: `cp ${backup} config/runtime-policy.json`,
    })
    expect(readFileSync(join(root, backup), 'utf8')).toBe(old)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ agents: [{ id: 'coder', capabilities: [] }] })
    expect(readdirSync(join(root, 'config'))).toEqual(['runtime-policy.json'])
  })

  it('[H9.1] a second apply writes neither the file nor a backup', async () => {
    writeFileSync(file, old)
    await migrateConfig(root, true, ports)
    const before = statSync(file)
    const again = await migrateConfig(root, true, ports)
    expect(again).toMatchObject({
      ok: true,
      changed: false,
      applied: false,
      wouldWrite: false,
      backup: null,
      rollbackHint: null,
    })
    expect([statSync(file).ino, statSync(file).mtimeMs]).toEqual([before.ino, before.mtimeMs])
    expect(backups()).toHaveLength(1)
  })

  it('[H9.3] apply does not overwrite a backup of the same second', async () => {
    for (const text of [old, '{"agents":["b"]}', '{"agents":["c"]}']) {
      writeFileSync(file, text)
      await migrateConfig(root, true, ports)
    }
    expect(backups()).toEqual([
      'runtime-policy.20260301T100000Z-1.json',
      'runtime-policy.20260301T100000Z-2.json',
      'runtime-policy.20260301T100000Z.json',
    ])
  })

  it('[H9.4] reports "parse failed", and with apply writes a valid file and backs up the broken one', async () => {
    for (const bytes of [Buffer.from('{broken'), Buffer.from([0xff, 0x00])]) {
      writeFileSync(file, bytes)
      const dry = await migrateConfig(root, false, ports)
      expect(dry).toMatchObject({ ok: false, applied: false, summary: expect.stringContaining('parse failed') })
      expect(dry.risks).toContain('parse failed')
      expect(readFileSync(file)).toEqual(bytes)
      const done = await migrateConfig(root, true, ports)
      expect(done).toMatchObject({ ok: true, applied: true })
      expect(done.risks).toEqual(['parse failed', 'agent list is empty after migration'])
      expect(readFileSync(join(root, done.backup ?? ''))).toEqual(bytes)
      expect((await migrateConfig(root, true, ports)).changed).toBe(false)
    }
  })

  it('[H9.2] apply creates a missing file without a backup', async () => {
    rmSync(join(root, 'config'), { recursive: true })
    expect(await migrateConfig(root, true, ports)).toMatchObject({
      applied: true,
      backup: null,
      rollbackHint: 'rm config/runtime-policy.json',
    })
    expect(await migrateConfig(root, true, ports)).toMatchObject({ changed: false })
    expect(readdirSync(root)).toEqual(['config'])
  })

  it('[H9.4] reports a failed write at each step, and leaves the file unchanged', async () => {
    const dies = (verb: 'writeDraft' | 'link' | 'replace' | 'makeFolder'): Disk => ({
      ...systemDisk,
      [verb]: async () => Promise.reject(new Error('no space left')),
    })
    for (const verb of ['makeFolder', 'writeDraft', 'link', 'replace'] as const) {
      rmSync(join(root, 'state'), { recursive: true, force: true })
      writeFileSync(file, old)
      const lost = await migrateConfig(root, true, { ...ports, disk: dies(verb) })
      expect(lost).toMatchObject({
        ok: false,
        applied: false,
        writeError: 'no space left',
        rollbackHint: null,
        summary: expect.stringContaining('write failed'),
      })
      expect(lost.risks).toContain('write failed')
      expect(readFileSync(file, 'utf8')).toBe(old)
      expect(readdirSync(join(root, 'config'))).toEqual(['runtime-policy.json'])
    }
  })

  it('[H9.3] the backup is on disk before the original is replaced', async () => {
    writeFileSync(file, old)
    const steps: string[] = []
    const watched: Disk = {
      ...systemDisk,
      replace: async (path, draft) => {
        steps.push(path.includes('backups') ? 'backup' : 'config')
        if (steps.includes('config')) throw new Error('the power failed')
        await systemDisk.replace(path, draft)
      },
    }
    const lost = await migrateConfig(root, true, { ...ports, disk: watched })
    expect([steps, lost.ok]).toEqual([['backup', 'config'], false])
    expect(backups()).toEqual(['runtime-policy.20260301T100000Z.json'])
    expect(readFileSync(file, 'utf8')).toBe(old)
    expect(readdirSync(join(root, 'config'))).toEqual(['runtime-policy.json'])
  })

  it('migrate-config-v2 touches nothing outside the root', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'bellwether-outside-'))
    try {
      writeFileSync(join(outside, 'runtime-policy.json'), old)
      symlinkSync(join(outside, 'runtime-policy.json'), file)
      await expect(migrateConfig(root, true, ports)).rejects.toMatchObject({ code: 'unusable_policy' })
      rmSync(file)
      writeFileSync(file, old)
      symlinkSync(outside, join(root, 'state'))
      expect(await migrateConfig(root, true, ports)).toMatchObject({
        ok: false,
        writeError: expect.stringContaining('leads out'),
      })
      rmSync(join(root, 'config'), { recursive: true })
      rmSync(join(outside, 'runtime-policy.json'))
      symlinkSync(outside, join(root, 'config'))
      expect(await migrateConfig(root, true, ports)).toMatchObject({
        ok: false,
        writeError: expect.stringContaining('leads out'),
      })
      expect(readdirSync(outside)).toEqual([])
    } finally {
      rmSync(outside, { recursive: true })
    }
  })
})

describe('bellwether migrate-config-v2', () => {
  async function cli(name: string, text: string, ...words: string[]) {
    const place = join(root, name)
    mkdirSync(join(place, 'config'), { recursive: true })
    writeFileSync(join(place, 'config', 'runtime-policy.json'), text)
    const run = runCli(['migrate-config-v2', '--root', place, ...words], { cwd: root })
    onTestFinished(async () => {
      run.signal('SIGKILL')
      await run.ended
    })
    const code = await run.ended
    const after = readFileSync(join(place, 'config', 'runtime-policy.json'), 'utf8')
    return { code, stdout: run.stdout(), stderr: run.stderr(), unchanged: after === text }
  }

  it('[H9.1] the command is a dry run by default, prints one JSON summary unless --text is given, and exits with 0, 1 or 2', async () => {
    const [dry, done, human, broken, both, nowhere] = await Promise.all([
      cli('dry', old),
      cli('done', old, '--apply', '--json'),
      cli('human', JSON.stringify({ agents: ['a'], 'old\u001b[31m': 1 }), '--text'),
      cli('broken', '{broken', '--dry-run', '--json'),
      cli('both', old, '--dry-run', '--apply'),
      cli('nowhere', old, '--root', join(root, 'no-such-folder')),
    ])
    expect([dry.code, dry.stderr, dry.unchanged]).toEqual([0, '', true])
    const keys = ['changed', 'applied', 'diff', 'risks', 'summary']
    expect(Object.keys(JSON.parse(dry.stdout) as object)).toEqual(expect.arrayContaining(keys))
    const hint = /^cp state\/config-migration-backups\/runtime-policy\.\S+ config\/runtime-policy\.json$/
    expect(JSON.parse(done.stdout)).toMatchObject({ applied: true, rollbackHint: expect.stringMatching(hint) })
    expect([done.code, done.unchanged]).toEqual([0, false])
    expect([human.code, human.unchanged]).toEqual([0, true])
    expect(human.stdout).toContain('Risk: migration removes unsupported/deprecated fields')
    expect(human.stdout).not.toContain('\u001b')
    expect([broken.code, broken.unchanged, JSON.parse(broken.stdout)]).toEqual([
      1,
      true,
      expect.objectContaining({ ok: false, risks: expect.arrayContaining(['parse failed']) }),
    ])
    expect([both.code, both.stdout, both.unchanged]).toEqual([2, '', true])
    expect([nowhere.code, nowhere.stdout]).toEqual([2, ''])
  })
})
