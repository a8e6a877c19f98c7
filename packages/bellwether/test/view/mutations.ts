/**
 * Mutations that remove one guard of the view each, with the tests that must then fail. `npx tsx
 * --conditions=@bellwether/source packages/bellwether/bench/mutants.ts` applies them one by one to a copy.
 */
import type { Mutation } from '../support/mutants.js'

const consistency = ['test/view/consistency.test.ts', 'test/view/model.test.ts']

export const viewMutations: readonly Mutation[] = [
  {
    name: 'the tombstone rule is removed',
    file: 'view/arbitration/arbiter.ts',
    from: '    tombstoneRule(row, context) ??\n',
    to: '',
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'newer memory does not win over an audit (rule 2)',
    file: 'view/arbitration/arbiter.ts',
    from: '    newerMemoryRule(row, context) ??\n',
    to: '',
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'an audit with complete: false still deletes',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'const isComplete = complete ?? !audit.markers',
    to: 'const isComplete = complete !== undefined || !audit.markers',
    tests: consistency,
  },
  {
    name: 'any session may end an audit',
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
    name: 'snapshots are sampled by the logical clock',
    file: 'view/arbitration/authority.ts',
    from: "    blindSpot: 'leaves',\n    setsLastUpdated: false,\n    knownByAgent: true,\n    samplesClock: false,",
    to: "    blindSpot: 'leaves',\n    setsLastUpdated: false,\n    knownByAgent: true,\n    samplesClock: true,",
    tests: ['src/view/arbitration/arbiter.test.ts', ...consistency],
  },
  {
    name: 'audits delete no missing entries',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'const deleted = isComplete ? await runInSlices(audit.detectMissing()) : 0',
    to: 'const deleted = isComplete ? 0 : 0',
    tests: consistency,
  },
  {
    name: 'a failed settling scan does not reopen its dispute',
    file: 'view/sessions/scan-jobs.ts',
    from: "    if (state !== 'done') job.scan.reopenDispute(job.path, job.recursive)\n",
    to: '',
    tests: ['test/view/settling.test.ts', 'src/view/arbitration/marks.test.ts'],
  },
  {
    name: 'a file that becomes a directory keeps its marks',
    file: 'view/arbitration/source-state.ts',
    from: '    if (replaced > root) this.remove(replaced)\n',
    to: '',
    tests: ['test/view/invariants.test.ts'],
  },
  {
    name: 'a scan of an outdated directory still deletes',
    file: 'view/arbitration/scans.ts',
    from: "const isOutdated = purpose !== 'settling' && modifiedTime < tree.modifiedTime(directory)",
    to: 'const isOutdated = false',
    tests: consistency,
  },
  {
    name: 'a sentinel clears a suspect before its threshold',
    file: 'view/arbitration/source-state.ts',
    from: "      if (suspect.expiresAt > monotonicMs) return 'unchanged'\n",
    to: '',
    tests: consistency,
  },
  {
    name: 'a link and a file with the same size and mtime count as the same',
    file: 'view/arbitration/arbiter.ts',
    from: '    row.isSymlink === known.isSymlink &&\n',
    to: '',
    tests: ['test/view/queries.test.ts'],
  },
  {
    name: 'a link can be a suspect',
    file: 'view/arbitration/arbiter.ts',
    from: 'if (row.isDirectory || row.isSymlink) return',
    to: 'if (row.isDirectory) return',
    tests: ['test/view/queries.test.ts'],
  },
  {
    name: 'a complete listing leaves a directory marked as unreadable',
    file: 'view/arbitration/source-state.ts',
    from: 'return this.#markUnreadable(node, false)',
    to: 'return false',
    tests: ['test/view/queries.test.ts'],
  },
  {
    name: 'a requested scan waits until its pipe has restarted',
    file: 'view/ingest/fusion-pipe.ts',
    from: 'if (job !== undefined && this.#isDirect(job)) return',
    to: 'if (job !== undefined && job.id === this.#options.name) return',
    tests: ['test/view/health.test.ts'],
  },
  {
    name: 'a scan that a pipe failure interrupted continues with its later rows only',
    file: 'view/ingest/fusion-pipe.ts',
    from: '    if (job.rows === 0) return true\n',
    to: '    return true\n',
    tests: ['test/view/health.test.ts'],
  },
  {
    name: 'a receiver that failed still accepts rows',
    file: 'http/routes/pipe.ts',
    from: "if (inProcess || fusion.health.get(httpReceiver)?.state !== 'failed') return",
    to: 'if (fusion.views.size >= 0) return',
    tests: ['test/view/receiver.test.ts', 'test/view/health.test.ts'],
  },
  {
    name: 'a source whose pipe keeps failing is kept',
    file: 'view/ingest/fusion-pipe.ts',
    from: '    if (this.#failures % persistentAt === 0) this.#options.onPersistentFailure()\n',
    to: '',
    tests: ['test/view/health.test.ts'],
  },
  {
    name: 'the type of a view is that of the server',
    file: 'runtime/parts/views.ts',
    from: 'live: settings.live && !persistentNames.has(name),',
    to: 'live: settings.live,',
    tests: ['src/runtime/parts/views.test.ts', 'src/view/health.test.ts'],
  },
  {
    name: 'an excluded path counts as missing',
    file: 'view/queries/file-evidence.ts',
    from: "    if (job.excluded) return 'excluded'\n",
    to: '',
    tests: ['test/view/queries.test.ts'],
  },
]
