/**
 * The guards of the view, each with what it looks like when it is taken out, and the tests that must then fail. `npx tsx
 * --conditions=@bellwether/source packages/bellwether/bench/view-mutants.ts` takes them out one by one, in a copy; a test
 * says that every one of them can still be taken out.
 */
export interface ViewMutation {
  readonly name: string
  /** Below src. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** One of these must fail. */
  readonly tests: readonly string[]
}

const consistency = ['test/view/consistency.test.ts', 'test/view/model.test.ts']

export const viewMutations: readonly ViewMutation[] = [
  {
    name: 'the tombstone rule is removed',
    file: 'view/arbitration/arbiter.ts',
    from: '    tombstoneRule(row, context) ??\n',
    to: '',
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'memory that is newer does not win over an audit (rule 2)',
    file: 'view/arbitration/arbiter.ts',
    from: '    newerMemoryRule(row, context) ??\n',
    to: '',
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'an audit that says complete: false concludes all the same',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'const isComplete = complete ?? !audit.markers',
    to: 'const isComplete = complete !== undefined || !audit.markers',
    tests: consistency,
  },
  {
    name: 'whose audit it is does not matter at its end',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'if (audit === undefined || audit.sessionId !== session.id || (auditId ?? audit.auditId) !== audit.auditId)',
    to: 'if (audit === undefined)',
    tests: ['test/view/sessions.test.ts', ...consistency],
  },
  {
    name: 'realtime does not clear blind spots',
    file: 'view/arbitration/authority.ts',
    from: "blindSpot: 'clears',",
    to: "blindSpot: 'leaves',",
    tests: consistency,
  },
  {
    name: 'snapshots feed the clock',
    file: 'view/arbitration/authority.ts',
    from: "    blindSpot: 'leaves',\n    setsLastUpdated: false,\n    knownByAgent: true,\n    samplesClock: false,",
    to: "    blindSpot: 'leaves',\n    setsLastUpdated: false,\n    knownByAgent: true,\n    samplesClock: true,",
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'audits look for nothing that is missing',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'const deleted = isComplete ? await runInSlices(audit.detectMissing()) : 0',
    to: 'const deleted = isComplete ? 0 : 0',
    tests: consistency,
  },
  {
    name: 'a scan that should have settled a dispute and failed is forgotten',
    file: 'view/sessions/scan-jobs.ts',
    from: "    if (state !== 'done') job.scan.reopenDispute(job.path, job.recursive)\n",
    to: '',
    tests: ['test/view/settling.test.ts', 'src/view/arbitration/marks.test.ts'],
  },
]
