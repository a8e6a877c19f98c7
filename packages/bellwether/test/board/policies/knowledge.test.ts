import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, systemClock, systemRandom } from '@bellwether/base'
import { beforeEach, describe, expect, it } from 'vitest'
import { backfillKnowledge, fetchKnowledge } from '../../../src/board/policies/knowledge-files.js'
import { defaultKnowledge, type KnowledgePolicy } from '../../../src/board/policies/knowledge.js'
import { systemDisk, type Disk } from '../../../src/ports/disk/disk.js'
import { uuidv7 } from '../../../src/ports/ids.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let base: string
let root: string
beforeEach(() => {
  base = tempFolder('knowledge')
  root = join(base, 'root')
  mkdirSync(join(root, 'state'), { recursive: true })
})

const on = (changes: Partial<KnowledgePolicy> = {}): KnowledgePolicy => ({
  ...defaultKnowledge,
  enabled: true,
  timeoutMs: 10_000,
  ...changes,
})
const put = (path: string, value: unknown) =>
  writeFileSync(join(root, path), typeof value === 'string' ? value : JSON.stringify(value))
const fetch = (policy: KnowledgePolicy, clock: Clock = systemClock) => fetchKnowledge(root, policy, clock)
const ports = { disk: systemDisk, clock: systemClock, ids: uuidv7(systemClock, systemRandom) }
const lesson = { taskId: 'T-1', agent: 'coder', reasonCode: 'spawn_failed', detail: 'no kernel' }
const feedback = 'state/knowledge-feedback.json'

describe('sources of knowledge', () => {
  it('[H8.1] reads nothing while disabled, and degrades if not read-only', async () => {
    put(feedback, { lessons: ['x'] })
    expect(await fetch(defaultKnowledge)).toMatchObject({ degraded: false, section: '', knowledgeTags: [] })
    expect(await fetch(on({ readOnly: false }))).toMatchObject({
      degraded: true,
      section: '',
      degradeReason: expect.stringContaining('readOnly'),
    })
    expect(await fetchKnowledge(root, on(), systemClock, 'the file is broken')).toMatchObject({
      degraded: true,
      degradeReason: 'the file is broken',
    })
  })

  it('[H8.3] returns the hints section and its tags', async () => {
    put(feedback, { lessons: ['write tests'], mistakes: ['forgot the lock'] })
    const { section, ...rest } = await fetch(on())
    expect(rest).toMatchObject({
      degraded: false,
      degradeReason: null,
      knowledgeTags: ['lessons', 'mistakes'],
      source: feedback,
    })
    expect(section).toContain('KNOWLEDGE_HINTS')
    expect(section).toContain('write tests')
  })

  it('[H8.2] rejects sources outside the root by any path, degrades, and continues with the next', async () => {
    writeFileSync(join(base, 'secret.json'), JSON.stringify({ lessons: ['SECRET'] }))
    mkdirSync(join(base, 'beside'))
    writeFileSync(join(base, 'beside', 'x.json'), JSON.stringify({ lessons: ['SECRET'] }))
    symlinkSync('../../secret.json', join(root, 'state', 'link.json'))
    symlinkSync(join(base, 'beside'), join(root, 'folder'))
    put('good.json', { lessons: ['inside'] })
    for (const path of [
      join(base, 'secret.json'),
      '../secret.json',
      'state/../../secret.json',
      'state/link.json',
      'folder/x.json',
      'a\0b',
    ]) {
      const alone = await fetch(on({ sourceCandidates: [path] }))
      expect([path, alone.degraded, alone.section]).toEqual([path, true, ''])
      const followed = await fetch(on({ sourceCandidates: [path, 'good.json'] }))
      expect(followed).toMatchObject({
        degraded: false,
        degradeReason: alone.degradeReason,
        source: 'good.json',
        knowledgeTags: ['lessons'],
      })
      expect(JSON.stringify([alone, followed])).not.toContain('SECRET')
    }
  })

  it('[H8.2] continues after a source that fails, and throws nothing', async () => {
    put('good.json', { patterns: ['p'] })
    mkdirSync(join(root, 'folder.json'))
    execFileSync('/usr/bin/env', ['mkfifo', join(root, 'pipe.json')])
    put('broken.json', '{"lessons":')
    put('list.json', [1, 2])
    put('huge.json', `{"lessons":["${'x'.repeat(1_100_000)}"]}`)
    writeFileSync(join(root, 'binary.json'), Buffer.from([0xff, 0xfe, 0x00]))
    put('empty.json', {})
    for (const bad of ['folder.json', 'pipe.json', 'broken.json', 'list.json', 'huge.json', 'binary.json'])
      expect(await fetch(on({ sourceCandidates: [bad, 'good.json'] }))).toMatchObject({
        degraded: false,
        degradeReason: expect.stringContaining(bad),
        knowledgeTags: ['patterns'],
      })
    expect(await fetch(on({ sourceCandidates: ['broken.json', 'empty.json'] }))).toMatchObject({
      degraded: true,
      degradeReason: expect.stringContaining('broken.json'),
      section: '',
    })
    for (const none of ['nowhere.json', 'empty.json'])
      expect(await fetch(on({ sourceCandidates: [none, 'good.json'] }))).toMatchObject({
        degraded: false,
        knowledgeTags: ['patterns'],
      })
    expect(await fetchKnowledge(join(root, 'gone'), on(), systemClock)).toMatchObject({ section: '' })
  })

  it('[H8.1] tries each source maxRetries + 1 times', async () => {
    put(feedback, '{"lessons":')
    for (const maxRetries of [0, 1, 3]) {
      let pauses = 0
      const counting: Clock = {
        ...systemClock,
        sleep: async (ms, signal) => (ms < 1_000 ? void (pauses += 1) : systemClock.sleep(ms, signal)),
      }
      await fetch(on({ maxRetries, sourceCandidates: [feedback] }), counting)
      expect(pauses).toBe(maxRetries)
    }
    // The second attempt sees the finished file.
    const repairing: Clock = {
      ...systemClock,
      sleep: async (ms, signal) => (ms < 1_000 ? put(feedback, { lessons: ['late'] }) : systemClock.sleep(ms, signal)),
    }
    expect(await fetch(on({ maxRetries: 1 }), repairing)).toMatchObject({ degraded: false, knowledgeTags: ['lessons'] })
  })

  it('[H8.2] reads all sources within one timeout, and degrades after it', async () => {
    put(feedback, { lessons: ['x'] })
    const over: Clock = { ...systemClock, sleep: async () => undefined }
    expect(await fetch(on({ timeoutMs: 5 }), over)).toMatchObject({
      degraded: true,
      degradeReason: 'reading the sources took longer than 5 ms',
      section: '',
    })
  })
})

describe('feedback of a failed run', () => {
  it('[H8.4] the feedback of a failed run is written only to state/knowledge-feedback.json and read back as hints', async () => {
    put('state/lessons-learned.json', { lessons: ['old'] })
    const first = await backfillKnowledge(root, on(), lesson, ports)
    expect(first).toEqual({ written: true, mistakes: 1, patterns: 1, tags: ['dispatch_failure', 'spawn_failed'] })
    await backfillKnowledge(root, on(), lesson, ports)
    expect(readdirSync(join(root, 'state')).sort()).toEqual(['knowledge-feedback.json', 'lessons-learned.json'])
    expect(JSON.parse(readFileSync(join(root, feedback), 'utf8'))).toMatchObject({
      mistakes: ['coder on T-1: spawn_failed: no kernel'],
      tags: ['dispatch_failure', 'spawn_failed'],
    })
    expect((await fetch(on())).knowledgeTags).toEqual(['mistakes', 'patterns'])
  })

  it('[H8.4] backfill creates the folder if it is missing', async () => {
    rmSync(join(root, 'state'), { recursive: true })
    expect(await backfillKnowledge(root, on(), lesson, ports)).toMatchObject({ written: true })
  })

  it('[H8.4] backfill reports why nothing was written, and never throws or writes elsewhere', async () => {
    expect(await backfillKnowledge(root, defaultKnowledge, lesson, ports)).toMatchObject({ written: false })
    expect(existsSync(join(root, feedback))).toBe(false)

    put(feedback, '{"mistakes": [ a person is writing here')
    expect(await backfillKnowledge(root, on(), lesson, ports)).toMatchObject({
      written: false,
      reason: expect.stringContaining('not JSON'),
    })
    expect(readFileSync(join(root, feedback), 'utf8')).toContain('a person is writing')
    rmSync(join(root, feedback))

    writeFileSync(join(base, 'victim.json'), '{}')
    symlinkSync('../../victim.json', join(root, feedback))
    expect(await backfillKnowledge(root, on(), lesson, ports)).toMatchObject({ written: false })
    rmSync(join(root, 'state'), { recursive: true })
    mkdirSync(join(base, 'outside'))
    symlinkSync(join(base, 'outside'), join(root, 'state'))
    expect(await backfillKnowledge(root, on(), lesson, ports)).toMatchObject({ written: false })
    expect(readdirSync(join(base, 'outside'))).toEqual([])
    expect(readFileSync(join(base, 'victim.json'), 'utf8')).toBe('{}')
    rmSync(join(root, 'state'))
    writeFileSync(join(root, 'state'), 'a file')
    expect(await backfillKnowledge(root, on(), lesson, ports)).toMatchObject({ written: false })
  })

  it('[H8.4] if the disk is full, backfill leaves the old file intact and no draft', async () => {
    put(feedback, { mistakes: ['old'] })
    const full: Disk = {
      ...systemDisk,
      writeDraft: async (draft) => {
        writeFileSync(draft, 'half')
        throw new Error('no space left')
      },
    }
    expect(await backfillKnowledge(root, on(), lesson, { ...ports, disk: full })).toMatchObject({
      written: false,
      reason: 'no space left',
    })
    expect(readdirSync(join(root, 'state'))).toEqual(['knowledge-feedback.json'])
    expect(JSON.parse(readFileSync(join(root, feedback), 'utf8'))).toEqual({ mistakes: ['old'] })
  })
})
