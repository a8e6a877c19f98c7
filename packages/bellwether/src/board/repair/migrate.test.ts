import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { plan, migrationRisks } from './migrate.js'
import { asRuntimePolicy } from '../policies/runtime.js'

const full = {
  agents: [
    { id: 'coder', capabilities: ['code', 'tests'] },
    { id: 'invest-analyst', capabilities: [] },
  ],
  orchestrator: {
    maxConcurrentSpawns: 6,
    retryPolicy: {
      maxAttempts: 5,
      backoff: { mode: 'exponential', baseMs: 200, maxMs: 2_000, multiplier: 2.5, jitterPct: 10 },
    },
    budgetPolicy: { guardrails: { maxTaskTokens: 3_210, maxTaskWallTimeSec: 456, maxTaskRetries: 3 } },
  },
}
const of = (value: unknown) => plan(JSON.stringify(value))

describe('version 2 of runtime-policy.json', () => {
  it('[H9.2] migration turns names into objects and fills missing values with safe defaults', () => {
    const { target, changed, risks } = of({ agents: ['coder', ' debugger '], orchestrator: { maxConcurrentSpawns: 2 } })
    expect(changed).toBe(true)
    expect(risks).toEqual([])
    expect(target).toEqual({
      agents: [
        { id: 'coder', capabilities: [] },
        { id: 'debugger', capabilities: [] },
      ],
      orchestrator: {
        maxConcurrentSpawns: 2,
        retryPolicy: {
          maxAttempts: 3,
          backoff: { mode: 'exponential', baseMs: 500, maxMs: 30_000, multiplier: 2, jitterPct: 20 },
        },
        budgetPolicy: { guardrails: { maxTaskTokens: 12_000, maxTaskWallTimeSec: 1_200, maxTaskRetries: 3 } },
      },
    })
  })

  it('[H9.2] migration keeps the capabilities of agents that are listed by name', () => {
    const { target, risks } = of({ agents: { coder: ['code', 'tests'], writer: 'text', tester: {} } })
    expect(target.agents).toEqual([
      { id: 'coder', capabilities: ['code', 'tests'] },
      { id: 'writer', capabilities: ['text'] },
      { id: 'tester', capabilities: [] },
    ])
    expect(risks).toEqual([])
    // Anything else about an agent cannot be kept, and is named.
    const lost = of({ agents: { coder: { capabilities: { code: 1 } }, writer: 7, tester: null } })
    expect(lost).toMatchObject({ risks: [migrationRisks.removes] })
    expect(lost.diff.sampleRemoved).toEqual(['agents.writer', 'agents.coder.capabilities.0'])
  })

  it('[H9.2] migration preserves explicit values of a mixed file and fills the gaps', () => {
    const { target, diff } = of({
      agents: ['coder', { id: 'debugger', capabilities: ['triage', 'logs'] }],
      orchestrator: { retryPolicy: { maxAttempts: 4 }, budgetPolicy: { guardrails: { maxTaskTokens: 999 } } },
    })
    expect(target.agents).toEqual([
      { id: 'coder', capabilities: [] },
      { id: 'debugger', capabilities: ['triage', 'logs'] },
    ])
    expect(target.orchestrator.retryPolicy).toMatchObject({ maxAttempts: 4, backoff: { baseMs: 500 } })
    expect(target.orchestrator.budgetPolicy.guardrails).toEqual({
      maxTaskTokens: 999,
      maxTaskWallTimeSec: 1_200,
      maxTaskRetries: 3,
    })
    expect(diff.sampleChanged).toEqual(['agents.0'])
    expect(diff.sampleAdded).toContain('orchestrator.maxConcurrentSpawns')
  })

  it('[H9.2] [H9.1] migration leaves a complete version 2 unchanged, in any key order', () => {
    expect(of(full)).toMatchObject({ changed: false, risks: [], diff: { added: 0, removed: 0, changed: 0 } })
    const turned = { orchestrator: full.orchestrator, agents: full.agents }
    expect(of(turned).changed).toBe(false)
  })

  it('[H9.4] migration names removed keys', () => {
    const { diff, risks, target } = of({
      ...full,
      legacyMode: true,
      agents: [{ id: 'coder', capabilities: [], color: 'red' }, 7, 'CODER', { name: 'tester', capabilities: 'qa' }],
      orchestrator: {
        ...full.orchestrator,
        oldTimeout: 5,
        retryPolicy: { ...full.orchestrator.retryPolicy, sleep: 1 },
      },
    })
    expect(risks).toEqual([migrationRisks.removes])
    expect([...diff.sampleRemoved].sort()).toEqual(
      [
        'agents.0.color',
        'agents.1',
        'agents.2',
        'legacyMode',
        'orchestrator.oldTimeout',
        'orchestrator.retryPolicy.sleep',
      ].sort(),
    )
    expect(target.agents).toEqual([
      { id: 'coder', capabilities: [] },
      { id: 'tester', capabilities: ['qa'] },
    ])
  })

  it('[H9.4] migration reports parse errors, invalid values and an empty list of agents', () => {
    for (const text of ['{broken', '[]', '7', '', '{"a":'.repeat(100) + '1' + '}'.repeat(100)])
      expect(plan(text)).toMatchObject({
        changed: true,
        risks: [migrationRisks.parse, migrationRisks.empty],
        parseError: expect.any(String),
      })
    expect(plan(undefined).parseError).toBe('not UTF-8')
    expect(of({ ...full, agents: [] }).risks).toEqual([migrationRisks.empty])
    const odd = { ...full, orchestrator: { ...full.orchestrator, maxConcurrentSpawns: -1 } }
    expect(of(odd)).toMatchObject({
      risks: [migrationRisks.replaces],
      target: { orchestrator: { maxConcurrentSpawns: 4 } },
    })
    const texts = { ...full, orchestrator: { ...full.orchestrator, maxConcurrentSpawns: '4' } }
    expect(of(texts)).toMatchObject({ risks: [], changed: true, target: { orchestrator: { maxConcurrentSpawns: 4 } } })
    expect(of({ ...full, orchestrator: [] }).diff.sampleRemoved).toEqual(['orchestrator'])
  })

  it('migration ignores prototype keys', () => {
    const { target, diff } = plan('{"__proto__":{"agents":["evil"]},"constructor":1,"agents":["coder"]}')
    expect(target.agents).toEqual([{ id: 'coder', capabilities: [] }])
    expect(diff.sampleRemoved).toEqual(['__proto__', 'constructor'])
    expect(({} as Record<string, unknown>)['agents']).toBeUndefined()
  })

  const near = fc.record(
    {
      agents: fc.oneof(
        fc.array(fc.oneof(fc.string(), fc.record({ id: fc.string(), capabilities: fc.jsonValue() }), fc.jsonValue())),
        fc.jsonValue(),
      ),
      orchestrator: fc.oneof(
        fc.jsonValue(),
        fc.record(
          {
            maxConcurrentSpawns: fc.jsonValue(),
            retryPolicy: fc.record(
              { maxAttempts: fc.oneof(fc.integer(), fc.jsonValue()), backoff: fc.jsonValue() },
              { requiredKeys: [] },
            ),
            budgetPolicy: fc.record({
              guardrails: fc.dictionary(
                fc.constantFrom('maxTaskTokens', 'maxTaskRetries', 'x'),
                fc.oneof(fc.double(), fc.jsonValue()),
              ),
            }),
          },
          { requiredKeys: [] },
        ),
      ),
    },
    { requiredKeys: [] },
  )

  it('[H9.1] migration is idempotent for any JSON', () => {
    fc.assert(
      fc.property(fc.oneof(near, fc.jsonValue()), (value) => {
        const once = of(value)
        const twice = of(once.target)
        expect(twice.target).toEqual(JSON.parse(JSON.stringify(once.target)))
        expect(twice).toMatchObject({ changed: false, parseError: null, diff: { added: 0, removed: 0, changed: 0 } })
      }),
      { numRuns: 500 },
    )
  })

  it('asRuntimePolicy gives the values of a file of any version, and the explicit ones', () => {
    const policy = asRuntimePolicy({ agents: ['a'], orchestrator: { retryPolicy: { maxAttempts: 7 } } })
    expect(policy).toEqual({
      agents: [{ id: 'a', capabilities: [] }],
      maxConcurrentSpawns: 4,
      explicit: { maxConcurrentSpawns: null, retryPolicy: { maxAttempts: 7 }, guardrails: {} },
    })
  })
})
