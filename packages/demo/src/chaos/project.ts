/**
 * The project of chaos: the demo's agents, more agents that run for a long time, poison agents that kill or block their worker, and
 * function agents. `expectations` says how the turns of each agent end; a turn of any other agent succeeds. Pure: texts by path.
 */
import { actors, programFile, projectFiles } from '../actors.js'

export const functionTarget = 'functions'
export const functionsFile = 'functions.mjs'
/** Lines that a command writes if an earlier run of its agent still lives. */
export const overlapsFile = 'overlaps.txt'

/** Agents of chaos that are commands. They run in the same worker as the demo's programs. */
export const commands = {
  /** They run 4 to 19 s, so that most faults interrupt one of them. */
  runners: ['runner-1', 'runner-2', 'runner-3', 'runner-4'],
  /** It leaves processes that hide: in sessions of their own, one of them without an environment. */
  leaver: 'leaver',
  /** It kills its worker. */
  killer: 'killer',
} as const

/** Agents of chaos that are functions. */
export const functions = {
  quick: ['function-1', 'function-2', 'function-3'],
  /** It suspends for a tool that its own worker hosts. */
  asker: 'asker',
  /** It blocks the event loop of its worker. */
  blocker: 'blocker',
  /** It throws in a timer, where no caller can catch the error. */
  thrower: 'thrower',
  /** It allocates memory until its process ends. */
  hog: 'hog',
} as const

/** The errors with which poison turns must end. A poison turn never succeeds. */
export const expectations: Readonly<Record<string, RegExp>> = {
  [commands.killer]: /^max_deaths$/,
  [functions.thrower]: /^(agent_failed|max_deaths)$/,
  [functions.hog]: /^max_deaths$|memory/,
}

// In a sandbox a command can neither kill its worker nor leave processes behind.
const outside = ['sandbox: none']

/** `quick`: shorter commands, blocks and timeouts, for a round of less than a minute. */
export function chaosFiles(quick: boolean): Readonly<Record<string, string>> {
  const demo = projectFiles({})
  return {
    ...demo,
    'bellwether.toml': quick ? quickSettings : fullSettings,
    [functionsFile]: functionModule(quick ? { leastMs: 1_000, mostMs: 3_000 } : { leastMs: 10_000, mostMs: 50_000 }),
    ...Object.fromEntries(
      commands.runners.map((name, at) => [`agents/${name}.md`, runner(quick ? 1 + at : 4 + 5 * at)]),
    ),
    [`agents/${commands.leaver}.md`]: programFile(
      `cat > /dev/null; setsid sleep 900 & env -i setsid sleep 900 & sleep 1; echo left`,
      'Leaves processes that hide.',
      outside,
    ),
    [`agents/${commands.killer}.md`]: programFile(
      'cat > /dev/null; kill -9 $PPID; sleep 600',
      'Kills its worker.',
      outside,
    ),
    [`agents/${actors.sheetFolder}.md`]: programFile('cat > /dev/null; sleep 0.3; echo folded', 'Folds one sheet.'),
  }
}

/** The lock belongs to the open file, which every process of the command inherits. */
function runner(seconds: number): string {
  return programFile(
    `cat > /dev/null; mkdir -p locks; exec 9>> locks/$BELLWETHER_AGENT; flock -n 9 || echo "$BELLWETHER_TURN" >> ${overlapsFile}; sleep ${seconds}; echo done`,
    `Runs for ${seconds} s.`,
  )
}

const heading = '# Written by `bellwether demo --chaos`.\n'
const viewSettings = (auditSeconds: number) => `
[server]
admin_commands = true

[view]
audit_interval_seconds = ${auditSeconds}
sentinel_interval_seconds = 5
hot_file_threshold_seconds = 5
tombstone_ttl_seconds = 60
`
/** All timeouts of turns and tasks are the defaults: a freeze of 30 to 90 s exceeds those that lead to a takeover. */
const fullSettings = `${heading}${viewSettings(20)}`
/** Takeovers are faster; the timeouts that end turns are the defaults. */
const quickSettings = `${heading}
[worker]
inbox_processing_timeout_seconds = 6
watchdog_interval_seconds = 1
resume_lease_seconds = 6
beat_seconds = 1
poll_seconds = 1

[pmo]
watchdog_interval_seconds = 1
dispatched_retry_seconds = 3
pending_wakeup_seconds = 2

[board]
autopilot_interval_seconds = 1
claim_lease_seconds = 5
spawn_grace_seconds = 5
${viewSettings(3)}`

const functionModule = ({ leastMs, mostMs }: { readonly leastMs: number; readonly mostMs: number }) => `\
import { setTimeout as sleep } from 'node:timers/promises'

const quick = async (turn) => {
  await sleep(200, undefined, { signal: turn.signal })
  return { deliver: { text: 'done' } }
}

export default {
${functions.quick.map((name) => `  '${name}': quick,`).join('\n')}
  ${functions.asker}: async (turn) =>
    turn.results.length > 0
      ? { deliver: { text: turn.results.map(({ status }) => status).join(', ') } }
      : { suspend: { calls: [{ toolCallId: turn.newId(), toolName: 'repeat', args: { text: 'hello' }, idempotent: true }] } },
  // Blocks without using the processor.
  ${functions.blocker}: async () => {
    const ms = ${leastMs} + Math.random() * ${mostMs - leastMs}
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
    return { deliver: { text: 'blocked for ' + Math.round(ms) + ' ms' } }
  },
  ${functions.thrower}: async () => {
    setTimeout(() => {
      throw new Error('thrown on purpose')
    }, 100)
    await sleep(600_000)
    return { deliver: { text: 'not reached' } }
  },
  ${functions.hog}: async () => {
    const leaked = []
    for (;;) {
      leaked.push(Array.from({ length: 100_000 }, (_, at) => ({ at })))
      await sleep(1)
    }
  },
}

export const tools = [
  {
    name: 'repeat',
    description: 'Returns its arguments.',
    parameters: { type: 'object', properties: { text: { type: 'string' } } },
    idempotent: true,
    run: async (args) => args,
  },
]
`
