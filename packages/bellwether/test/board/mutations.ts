/**
 * Mutations that remove one guard of the board each, with the tests that must then fail. `npx tsx
 * --conditions=@bellwether/source packages/bellwether/bench/mutants.ts` applies them one by one to a copy.
 */
import type { Mutation } from '../support/mutants.js'

export const boardMutations: readonly Mutation[] = [
  {
    name: 'the fold counts lines with an old fencing token',
    file: 'board/log/fold/fold.ts',
    from: 'if (line.token >= 0 && line.token < this.#token) {',
    to: 'if (line.token >= 0 && line.token < 0) {',
    tests: ['src/board/log/fold/fold.test.ts', 'test/board/log/locks.test.ts'],
  },
  {
    name: 'the fold counts an event id twice',
    file: 'board/log/fold/fold.ts',
    from: 'if (this.#eventIds.find(line.bytes, line.eventIdStart, line.eventIdEnd) >= 0) {',
    to: 'if (this.#eventIds.find(line.bytes, line.eventIdStart, line.eventIdEnd) >= Infinity) {',
    tests: ['src/board/log/fold/fold.test.ts'],
  },
  {
    name: 'a replay accepts an illegal transition',
    file: 'board/log/fold/reduce.ts',
    from: 'return transitions[status].includes(target) ? target : undefined',
    to: 'return target',
    tests: ['src/board/log/fold/fold.test.ts'],
  },
  {
    name: 'a damaged line holds no task',
    file: 'board/log/fold/fold.ts',
    from: 'if (!damagedKinds.has(kind)) return\n',
    to: 'return\n',
    tests: ['test/board/log/damage.test.ts'],
  },
  {
    name: 'a late copy of a damaged reopening makes finished work ready',
    file: 'board/log/fold/replay.ts',
    from: '      this.fold.holdReopened(this.lineNumber + 1)\n',
    to: '      return true\n',
    tests: ['test/board/log/damage.test.ts'],
  },
  {
    name: 'a lock is taken over at any age',
    file: 'board/log/locks/locks.ts',
    from: 'const isFree = status.stale !== false || (name !== referenceLock && status.abandoned)',
    to: 'const isFree = status.ageMs >= 0',
    tests: ['test/board/log/locks.test.ts'],
  },
  {
    name: 'a takeover writes no audit line',
    file: 'board/log/locks/locks.ts',
    from: '    await auditTakeover(folder, below, token, options, ports)\n',
    to: '',
    tests: ['test/board/log/locks.test.ts'],
  },
  {
    name: 'a failed run does not raise the attempt',
    file: 'board/policies/recovery.ts',
    from: 'const attempt = Math.min((last?.attempt ?? 0) + 1, maxAttempts + 1)',
    to: 'const attempt = Math.min(1, maxAttempts + 1)',
    tests: ['src/board/policies/recovery.test.ts'],
  },
  {
    name: 'a used-up budget allows the next run',
    file: 'board/policies/budget.ts',
    from: 'if (exceededKeys.length === 0 && stoppedBy === undefined)',
    to: 'if (exceededKeys.length >= 0)',
    tests: ['src/board/policies/budget.test.ts'],
  },
  {
    name: 'acceptance accepts a file that does not exist',
    file: 'board/policies/acceptance.ts',
    from: "  if (found === 'missing') return 'is claimed but does not exist'\n",
    to: '',
    tests: ['src/board/policies/acceptance.test.ts'],
  },
  {
    name: 'acceptance accepts a file that did not change',
    file: 'board/policies/acceptance.ts',
    from: 'if (!required.filesMustChange || changedSince === true) return null',
    to: 'if (!required.filesMustChange || changedSince !== undefined) return null',
    tests: ['src/board/policies/acceptance.test.ts'],
  },
  {
    name: 'an agent’s status of failure is ignored',
    file: 'board/policies/reported-failure.ts',
    from: 'blockedFlag(report) ?? statusFailure(report) ?? flagFailure(report)',
    to: 'blockedFlag(report) ?? flagFailure(report)',
    tests: ['src/board/policies/reported-failure.test.ts'],
  },
  {
    name: 'a turn that the log names is spawned again',
    file: 'board/dispatch/respawn.ts',
    from: 'if (run.agentTurnId !== undefined || intent.again >= againMax) return null',
    to: 'if (intent.again >= againMax) return null',
    tests: ['test/board/dispatch/respawn.test.ts'],
  },
  {
    name: 'an intent is spawned again without a limit',
    file: 'board/dispatch/respawn.ts',
    from: 'if (run.agentTurnId !== undefined || intent.again >= againMax) return null',
    to: 'if (run.agentTurnId !== undefined) return null',
    tests: ['test/board/dispatch/respawn.test.ts'],
  },
]
