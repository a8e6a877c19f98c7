import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { acceptanceShape, defaultAcceptance } from '../../../src/board/policies/acceptance-policy.js'
import { budgetShape, limitsFor, defaultBudget } from '../../../src/board/policies/budget.js'
import { knowledgeShape, defaultKnowledge } from '../../../src/board/policies/knowledge.js'
import { loadPolicies, merged, openPolicies } from '../../../src/board/policies/load.js'
import { recoveryShape, ruleFor, defaultRecovery } from '../../../src/board/policies/recovery.js'
import { retryShape } from '../../../src/board/policies/retry.js'
import { defaultCallPolicy } from '../../../src/ports/retry.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

let root: string
beforeEach(() => {
  root = tempFolder('policies')
  mkdirSync(join(root, 'config'))
})

const write = (name: string, contents: unknown) =>
  writeFileSync(join(root, 'config', name), typeof contents === 'string' ? contents : JSON.stringify(contents))

async function problems(): Promise<string[]> {
  try {
    await loadPolicies(root)
  } catch (error) {
    if (!(error instanceof InvalidInput) || error.code !== 'invalid_policy') throw error
    return error.message.split('\n').slice(1)
  }
  return []
}

describe('policies of a running process', () => {
  const later = { wallMs: () => Date.now() + 60_000 }

  it('are the same object until a file changes, appears or disappears', async () => {
    const policies = openPolicies(root, later)
    const first = await policies()
    expect(await policies()).toBe(first)
    write('recovery-policy.json', { recoveryChain: ['ann', 'human'] })
    const second = await policies()
    expect(second.recovery.recoveryChain).toEqual(['ann', 'human'])
    expect(await policies()).toBe(second)
    write('recovery-policy.json', { recoveryChain: ['bob', 'human'] })
    expect((await policies()).recovery.recoveryChain).toEqual(['bob', 'human'])
    rmSync(join(root, 'config', 'recovery-policy.json'))
    expect((await policies()).recovery).toEqual(defaultRecovery)
  })

  it('are read again while a change is so recent that the next one could have the same time', async () => {
    write('recovery-policy.json', { recoveryChain: ['ann', 'human'] })
    const { ctimeMs } = statSync(join(root, 'config', 'recovery-policy.json'))
    const policies = openPolicies(root, { wallMs: () => ctimeMs + 1_000 })
    expect(await policies()).not.toBe(await policies())
  })

  it('report an invalid file each time, and work again when it is corrected', async () => {
    const policies = openPolicies(root, later)
    write('recovery-policy.json', '{')
    await expect(policies()).rejects.toThrow('recovery-policy.json')
    await expect(policies()).rejects.toThrow('recovery-policy.json')
    write('recovery-policy.json', {})
    expect((await policies()).recovery).toEqual(defaultRecovery)
  })
})

describe('loading policies', () => {
  it('[H1.1] [H6.1] [H7.1] [H8.1] a task root without policy files gets the defaults', async () => {
    const { explicit: _explicit, ...runtime } = (await loadPolicies(root)).runtime
    expect(runtime).toEqual({ agents: [], maxConcurrentSpawns: 4 })
    expect(await loadPolicies(root)).toMatchObject({
      calls: defaultCallPolicy,
      recovery: defaultRecovery,
      budget: defaultBudget,
      knowledge: defaultKnowledge,
      knowledgeError: null,
      acceptance: defaultAcceptance,
    })
    expect(await loadPolicies(join(root, 'nowhere'))).toMatchObject({ recovery: defaultRecovery })
  })

  it('[H6.1] a task root overrides the recovery policy key by key', async () => {
    write('recovery-policy.json', {
      recoveryChain: ['Tester', 'coder', 'coder'],
      default: { maxAttempts: 7 },
      reasonPolicies: { SPAWN_FAILED: { cooldownSec: 1 }, incomplete_output: { maxAttempts: 1 } },
      hops: { human: { deadlineSec: 60 } },
    })
    const { recovery } = await loadPolicies(root)
    expect(recovery.recoveryChain).toEqual(['tester', 'coder', 'human'])
    expect(ruleFor(recovery, 'blocked_signal')).toEqual({ maxAttempts: 7, cooldownSec: 180 })
    expect(ruleFor(recovery, 'spawn_failed')).toEqual({ maxAttempts: 7, cooldownSec: 1 })
    expect(ruleFor(recovery, 'incomplete_output')).toEqual({ maxAttempts: 1, cooldownSec: 120 })
    expect(recovery.hops).toEqual({ default: { deadlineSec: 3_600 }, human: { deadlineSec: 60 } })
  })

  it('[H7.1] a task root overrides budgets globally and per agent', async () => {
    write('budget-policy.json', {
      global: { maxTaskTokens: 99 },
      agents: { Coder: { maxTaskRetries: 9, onExceeded: null } },
    })
    const { budget } = await loadPolicies(root)
    expect(limitsFor(budget, 'debugger')).toEqual({ ...defaultBudget.global, maxTaskTokens: 99 })
    expect(limitsFor(budget, 'coder')).toEqual({
      ...defaultBudget.global,
      maxTaskTokens: 99,
      maxTaskRetries: 9,
      onExceeded: null,
    })
  })

  it('[H1.1] [H1.2] retry-policy.json overrides runtime-policy.json, which overrides the default timeouts and retries', async () => {
    write('runtime-policy.json', {
      orchestrator: {
        retryPolicy: { maxAttempts: 6, backoff: { baseMs: 100 } },
        budgetPolicy: { guardrails: { maxTaskTokens: 77 } },
      },
    })
    write('retry-policy.json', { timeouts: { synthesisSec: 60 }, retry: { backoff: { baseMs: 50, mode: 'fixed' } } })
    const { calls, budget } = await loadPolicies(root)
    expect(calls).toEqual({
      timeoutMs: { command_routing: 5_000, local_state: 3_000, external_message: 10_000, synthesis: 60_000 },
      retry: { maxAttempts: 6, backoff: { mode: 'fixed', baseMs: 50, multiplier: 2, maxMs: 30_000, jitterPct: 20 } },
    })
    expect(budget.global).toEqual({ ...defaultBudget.global, maxTaskTokens: 77 })
  })

  it('[H8.1] a task root can enable knowledge and keep the other defaults', async () => {
    write('knowledge-feedback.json', { enabled: true, maxRetries: 0 })
    expect((await loadPolicies(root)).knowledge).toEqual({ ...defaultKnowledge, enabled: true, maxRetries: 0 })
  })

  it('[H8.4] a broken knowledge policy does not prevent loading', async () => {
    write('knowledge-feedback.json', { enabeld: true })
    const { knowledge, knowledgeError } = await loadPolicies(root)
    expect(knowledge).toEqual(defaultKnowledge)
    expect(knowledgeError).toBe('config/knowledge-feedback.json: unknown key enabeld; did you mean enabled?')
  })

  it('loading names file, key and nearest valid key for all mistakes at once', async () => {
    write('budget-policy.json', {
      global: { maxTaskTokns: 1 },
      agents: { coder: { onExceded: 'stop_run' } },
      gobal: {},
    })
    write('recovery-policy.json', { default: { cooldown: 5, maxAttempts: '2' } })
    write('retry-policy.json', { timeouts: { localSec: 1 }, retry: { maxAttempts: 0 } })
    write('acceptance-policy.json', { roles: { coder: { minFile: 1 } } })
    const found = await problems()
    expect(found).toEqual(
      expect.arrayContaining([
        'config/budget-policy.json: unknown key global.maxTaskTokns; did you mean global.maxTaskTokens?',
        'config/budget-policy.json: unknown key agents.coder.onExceded; did you mean agents.coder.onExceeded?',
        'config/budget-policy.json: unknown key gobal; did you mean global?',
        'config/recovery-policy.json: unknown key default.cooldown; did you mean default.cooldownSec?',
        'config/retry-policy.json: unknown key timeouts.localSec; did you mean timeouts.localStateSec?',
        'config/acceptance-policy.json: unknown key roles.coder.minFile; did you mean roles.coder.minFiles?',
      ]),
    )
    expect(found.join('\n')).toMatch(/config\/recovery-policy\.json: default\.maxAttempts: .*number/)
    expect(found.join('\n')).toMatch(/config\/retry-policy\.json: retry\.maxAttempts: /)
  })

  it('loading rejects NaN, Infinity, negative numbers, fractional counts, wrong types and empty lists', async () => {
    const wrong: readonly [string, string][] = [
      ['budget-policy.json', '{"global":{"maxTaskTokens":NaN}}'],
      ['budget-policy.json', '{"global":{"maxTaskTokens":1e999}}'],
      ['budget-policy.json', '{"global":{"maxTaskTokens":-1}}'],
      ['budget-policy.json', '{"global":{"maxTaskRetries":1.5}}'],
      ['budget-policy.json', '{"global":{"degradePolicy":[]}}'],
      ['budget-policy.json', '{"global":{"degradePolicy":["explode"]}}'],
      ['budget-policy.json', '{"global":[]}'],
      ['budget-policy.json', '[]'],
      ['budget-policy.json', ''],
      ['recovery-policy.json', '{"recoveryChain":[]}'],
      ['recovery-policy.json', '{"recoveryChain":["a b"]}'],
      ['recovery-policy.json', '{"default":null}'],
      ['recovery-policy.json', '{"default":{"cooldownSec":1e300}}'],
      ['budget-policy.json', '{"agents":{"Coder":{},"coder":{}}}'],
      ['retry-policy.json', '{"timeouts":{"synthesisSec":0}}'],
      ['runtime-policy.json', '{broken'],
    ]
    for (const [name, text] of wrong) {
      write(name, text)
      const found = await problems()
      expect([text, found.length, found[0]]).toEqual([text, 1, expect.stringContaining(`config/${name}: `)])
      rmSync(join(root, 'config', name))
    }
  })

  it('loading rejects keys of the object prototype, which change nothing', async () => {
    for (const text of [
      '{"__proto__":{"polluted":1}}',
      '{"agents":{"__proto__":{"maxTaskTokens":1}}}',
      '{"agents":{"constructor":{"maxTaskTokens":1}}}',
      '{"global":{"prototype":1}}',
    ]) {
      write('budget-policy.json', text)
      const [found] = await problems()
      expect([text, found]).toEqual([text, expect.stringContaining('this key is reserved')])
    }
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    expect(merged({ a: 1 }, JSON.parse('{"__proto__":{"b":2}}'))).not.toHaveProperty('b')
  })

  it('loading rejects files that are huge, deep, not UTF-8, not regular, or outside the root', async () => {
    const file = join(root, 'config', 'budget-policy.json')
    const deep = '{"global":'.repeat(10_000) + '1' + '}'.repeat(10_000)
    const cases: readonly [string, () => void][] = [
      ['larger than', () => writeFileSync(file, `{"global":{}}${' '.repeat(1_100_000)}`)],
      ['nested 10000 levels deep', () => writeFileSync(file, deep)],
      ['not UTF-8', () => writeFileSync(file, Buffer.from([0x7b, 0xff, 0x7d]))],
      ['not a regular file', () => mkdirSync(file)],
      ['not a regular file', () => execFileSync('/usr/bin/env', ['mkfifo', file])],
      ['leads out of the task root', () => symlinkSync('/etc/hostname', file)],
    ]
    for (const [why, make] of cases) {
      make()
      const found = await problems()
      expect([why, found]).toEqual([why, [expect.stringMatching(new RegExp(`budget-policy.json: .*${why}`))]])
      rmSync(file, { recursive: true })
    }
    writeFileSync(join(root, 'elsewhere.json'), '{"global":{"maxTaskTokens":5}}')
    symlinkSync('../elsewhere.json', file)
    expect((await loadPolicies(root)).budget.global.maxTaskTokens).toBe(5)
  })

  it('docs/guides/policies.md documents every key of every policy file', () => {
    const pages = readFileSync(join(import.meta.dirname, '../../../../../docs/guides/policies.md'), 'utf8')
    const shapes = [retryShape, recoveryShape, budgetShape, knowledgeShape, acceptanceShape]
    const keys = shapes.flatMap((shape) => shape.keys.map((path) => path.at(-1)!))
    expect(keys.length).toBeGreaterThan(40)
    expect(keys.filter((key) => !new RegExp(`[\`.]${key}[\`.\\[]`).test(pages))).toEqual([])
  })

  it('loading lists the first of many mistakes', async () => {
    write('budget-policy.json', Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`k${index}`, 1])))
    const found = await problems()
    expect(found).toHaveLength(21)
    expect(found.at(-1)).toBe('… and 49980 more')
  })

  it('[H6.1] an override never drops a key that it does not name', () => {
    const tables = fc.letrec<{ table: Record<string, unknown>; value: unknown }>((tie) => ({
      table: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value')),
      value: fc.oneof({ depthSize: 'small' }, fc.integer(), fc.array(fc.integer()), tie('table')),
    })).table
    const isTable = (value: unknown): value is Record<string, unknown> => isObject(value)
    const wanted = (base: unknown, over: unknown): unknown => {
      if (over === undefined) return base
      if (!isTable(base) || !isTable(over)) return over
      const keys = [...new Set([...Object.keys(base), ...Object.keys(over)])]
      return Object.fromEntries(keys.map((key) => [key, wanted(base[key], over[key])]))
    }
    fc.assert(
      fc.property(tables, tables, (base, over) => {
        const before = JSON.stringify(base)
        expect(merged(base, over)).toEqual(wanted(base, over))
        expect(JSON.stringify(base)).toBe(before)
      }),
    )
  })
})
