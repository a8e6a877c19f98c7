/**
 * Mutations that remove one guard of the bell each, with the tests that must then fail. `npx tsx
 * --conditions=@bellwether/source packages/bellwether/bench/mutants.ts` applies them one by one to a copy.
 */
import type { Mutation } from '../support/mutants.js'

export const bellMutations: readonly Mutation[] = [
  {
    name: 'a ring that comes during the round trip of an equal one is lost',
    file: 'ports/bell/notify-sender.ts',
    from: 'waiting.clear()\n    if (await deliver(client, messages)) ',
    to: 'const isSent = await deliver(client, messages)\n    waiting.clear()\n    if (isSent) ',
    tests: ['test/ports/bell.test.ts'],
  },
  {
    name: 'rings for different workers become one',
    file: 'ports/bell/notify.ts',
    from: "(subject.endsWith('.wakeup') ? subject : text)",
    to: "(subject.endsWith('.wakeup') ? '' : text)",
    tests: ['test/ports/bell.test.ts'],
  },
]
