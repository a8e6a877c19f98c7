/**
 * `bellwether task …`: the board from the command line. Output is text, or one JSON object
 * with --json; exit code 0 ok, 1 failure, 2 usage.
 */
import { Command } from 'commander'

type Define = (task: Command, finish: (code: number) => void) => void

/** The verbs in the order of the help page. Each is loaded from the file that defines it. */
const definitions: readonly { readonly verbs: readonly string[]; readonly load: () => Promise<Define> }[] = [
  { verbs: ['add'], load: async () => (await import('./edit.js')).addCommand },
  { verbs: ['list'], load: async () => (await import('./queries.js')).listCommand },
  { verbs: ['show'], load: async () => (await import('./queries.js')).showCommand },
  { verbs: ['checks'], load: async () => (await import('./queries.js')).checksCommand },
  { verbs: ['edit'], load: async () => (await import('./edit.js')).editCommand },
  {
    verbs: 'claim block escalate freeze unfreeze release approve reject require-approval abort send-back'.split(' '),
    load: async () => (await import('./edit.js')).moveCommands,
  },
  { verbs: ['done'], load: async () => (await import('./done.js')).doneCommand },
  { verbs: ['merge', 'keep'], load: async () => (await import('./merge.js')).mergeCommands },
  { verbs: ['retry'], load: async () => (await import('./edit.js')).retryCommand },
  { verbs: ['bulk'], load: async () => (await import('./bulk.js')).bulkCommand },
  { verbs: ['pause', 'resume'], load: async () => (await import('./edit.js')).boardCommands },
  { verbs: ['dispatch'], load: async () => (await import('./dispatch.js')).dispatchCommand },
  { verbs: ['autopilot'], load: async () => (await import('./autopilot.js')).autopilotCommand },
  { verbs: ['watch'], load: async () => (await import('./watch.js')).watchCommand },
  { verbs: ['synthesize'], load: async () => (await import('./synthesize.js')).synthesizeCommand },
]

/** Loads what defines `verb`. Without a verb, or with an unknown one, everything, for the help page and the suggestion. */
export async function loadTask(verb: string | undefined): Promise<(finish: (code: number) => void) => Command> {
  const wanted = definitions.filter(({ verbs }) => verb !== undefined && verbs.includes(verb))
  const defines = await Promise.all((wanted.length > 0 ? wanted : definitions).map(({ load }) => load()))
  return (finish) => {
    const task = new Command('task').description('manage the tasks of the board').helpCommand(false)
    for (const define of defines) define(task, finish)
    return task
  }
}
