/**
 * Who plays in the demo, as the files of a project folder say it: agents, tools, policies and settings. Pure: texts by their
 * paths. Always: nothing here is special to the demo but the short waits; whoever copies the folder can run it with `up`.
 */
import type { DemoModel } from './real-model.js'

export const projectId = 'demo'
/** Two workers: one for agents that think, one for those that are programs. */
export const targets = { desk: 'desk', press: 'press' } as const

export const cast = {
  writers: ['writer-1', 'writer-2', 'writer-3'],
  researchers: ['researcher-1', 'researcher-2'],
  columnist: 'columnist',
  lead: 'lead',
  forker: 'forker',
  proofReader: 'proof-reader',
  weatherman: 'weatherman',
  pigeonKeeper: 'pigeon-keeper',
  marathon: 'marathon',
  spender: 'spender',
  printer: 'printer',
  boaster: 'boaster',
  hand: 'hand',
  sleeper: 'sleeper',
  jugglers: ['juggler-1', 'juggler-2', 'juggler-3', 'juggler-4'],
  tellers: ['teller-1', 'teller-2', 'teller-3'],
} as const

export const tools = {
  lookUp: 'look-up',
  save: 'save',
  lap: 'lap',
  barometer: 'barometer',
  juggle: 'juggle',
  /** On the roster, and hosted by nobody. */
  pigeonPost: 'pigeon-post',
} as const

/** Where the workers find the stage: an OpenAI-compatible server and some HTTP tools, on loopback. */
export const stageVariables = { url: 'STAGE_BASE_URL', key: 'STAGE_API_KEY', tools: 'STAGE_TOOLS_URL' } as const

export const laps = 12
/** More than the spender may use for one task. */
export const spenderTokens = 2_000
const spenderMayUse = 1_500

/** Short waits, so that what a watchdog does is seen while one watches. The rules are the ones of production. */
const settings = `# Written by \`bellwether demo\`; every key is explained in docs/reference/settings.md. The waits are short, so that a watchdog is seen at work.
[worker]
inbox_processing_timeout_seconds = 8
watchdog_interval_seconds = 1
suspend_timeout_seconds = 4
resume_lease_seconds = 8
beat_seconds = 1
poll_seconds = 1
max_attempts = 10

[pmo]
watchdog_interval_seconds = 1
dispatched_retry_seconds = 3
dispatched_timeout_seconds = 20
pending_wakeup_seconds = 2
active_reap_seconds = 25
suspended_reap_seconds = 25
turn_deadline_seconds = 90

[board]
autopilot_interval_seconds = 1
claim_lease_seconds = 5
spawn_grace_seconds = 5
`

const policies: Readonly<Record<string, object>> = {
  'config/recovery-policy.json': {
    recoveryChain: [cast.boaster, cast.printer],
    default: { maxAttempts: 3, cooldownSec: 1 },
    reasonPolicies: { incomplete_output: { cooldownSec: 1 } },
  },
  'config/budget-policy.json': { agents: { [cast.spender]: { maxTaskTokens: spenderMayUse } } },
}

/** Finds the file that the task names, and nothing that the prompt says besides. */
const wanted = `f=$(sed -n '/^# Task/,$p' | grep -o 'pages/[a-z0-9-]*[.]txt' | head -1)`
const claims = `printf '{"summary":"set","files":["%s"]}' "$f"`

const programs: Readonly<Record<string, readonly [script: string, description: string]>> = {
  [cast.printer]: [`${wanted}; mkdir -p pages; date > "$f"; ${claims}`, 'Prints a page, and says which file it is.'],
  [cast.boaster]: [`${wanted}; ${claims}`, 'Says that it has printed a page.'],
  [cast.hand]: [
    `read -r _; grep -q 'sheet 7 ' && exit 7; sleep 0.3; echo folded`,
    'Folds one sheet. Never the seventh.',
  ],
  [cast.sleeper]: ['exec sleep 80', 'Sleeps until somebody stops it.'],
  ...each(cast.tellers, ['cat > /dev/null; sleep 0.2; echo told', 'Answers at once, as a program.']),
}

interface Thinker {
  readonly tools?: readonly string[]
  readonly description: string
  readonly instructions: string
  /** Whether a real model may play it; the others keep to their lines. */
  readonly free?: boolean
}

const write = 'You write for a small newspaper. Two sentences are enough.'
const thinkers: Readonly<Record<string, Thinker>> = {
  ...each(cast.writers, { description: 'Writes a paragraph.', instructions: write, free: true }),
  ...each(cast.researchers, {
    tools: [tools.lookUp],
    description: 'Looks two things up at once.',
    instructions: 'Ask look-up who and when, once each, in one step. Then say in one sentence what you found.',
    free: true,
  }),
  [cast.columnist]: {
    tools: [tools.save],
    description: 'Writes a column into a file.',
    instructions: `${write} Save the text with the tool save, under the path that the task names. Then answer with the JSON object that the task asks for, and nothing else.`,
    free: true,
  },
  [cast.lead]: {
    tools: ['fork_join', 'delegate', 'ask_person'],
    description: 'Has twelve sheets folded, the page read, and a person asked.',
    instructions: 'You lead the evening edition.',
  },
  [cast.forker]: {
    tools: ['fork_join'],
    description: 'Has four sheets folded.',
    instructions: 'You fold by forking.',
  },
  [cast.proofReader]: { description: 'Reads what others wrote.', instructions: 'You find mistakes.' },
  [cast.weatherman]: {
    tools: [tools.barometer],
    description: 'Reads an instrument that hangs.',
    instructions: 'You report the weather.',
  },
  [cast.pigeonKeeper]: {
    tools: [tools.pigeonPost],
    description: 'Sends a pigeon that never comes back.',
    instructions: 'You send word to Paris.',
  },
  [cast.marathon]: {
    tools: [tools.lap],
    description: `Runs ${laps} laps, one a step; its worker is killed on the way.`,
    instructions: 'You run.',
  },
  [cast.spender]: {
    tools: [tools.save],
    description: 'Does what it is asked, at any price.',
    instructions: 'You spare no expense.',
  },
  ...each(cast.jugglers, {
    tools: [tools.juggle],
    description: 'Calls a tool that hangs, limps, fails and says things twice.',
    instructions: 'You juggle.',
  }),
}

function programFile(script: string, description: string): string {
  return `---
description: ${quoted(description)}
command: [sh, -c, ${quoted(script)}]
worker_target: ${targets.press}
---
`
}

function thinkerFile(
  name: string,
  { tools: list, description, instructions, free }: Thinker,
  model: DemoModel,
): string {
  const real = free === true && model.real !== undefined
  const played = real ? model.real.name : `stage/${name.replace(/-\d+$/, '')}`
  // A real model is paid for: each of its turns has an end that nobody can talk it out of.
  const limits = real
    ? `max_output_tokens: ${model.real.maxOutputTokens}
budget:
  max_tokens: ${model.real.maxTokens}
  max_steps: 6
`
    : 'max_output_tokens: 500\n'
  return `---
description: ${quoted(description)}
model: ${played}
worker_target: ${targets.desk}
context_tokens: 8000
${limits}${list === undefined ? '' : `tools: [${list.join(', ')}]\n`}---
${instructions}
`
}

/** As YAML and as TypeScript want it alike. */
const quoted = (text: string) => JSON.stringify(text)

const text = { type: 'string' }
const parameters = (...names: readonly string[]) => ({
  type: 'object',
  required: names,
  properties: Object.fromEntries(names.map((name) => [name, text])),
})

function toolsFile(): object {
  const at = (name: string, description: string, names: readonly string[], more: object = {}) => ({
    description,
    parameters: parameters(...names),
    url: `\${${stageVariables.tools}}/${name}`,
    headers: { Authorization: `Bearer \${${stageVariables.key}}` },
    timeout_seconds: 2,
    idempotent: true,
    allow_private: true,
    ...more,
  })
  return {
    tools: {
      [tools.lookUp]: at(tools.lookUp, 'Looks something up.', ['question']),
      [tools.save]: at(tools.save, 'Writes a file of the project.', ['path', 'text']),
      [tools.lap]: at(tools.lap, 'Notes a lap.', ['lap']),
      // It may have moved something: nobody repeats it, and the turn is told that nobody knows.
      [tools.barometer]: at(tools.barometer, 'Reads the barometer.', ['place'], {
        timeout_seconds: 3,
        idempotent: false,
      }),
      [tools.juggle]: at(tools.juggle, 'Throws a ball.', ['ball']),
    },
  }
}

/** Every file of the project folder, by its path. */
export function projectFiles(model: DemoModel): Readonly<Record<string, string>> {
  const json = (value: object) => `${JSON.stringify(value, undefined, 2)}\n`
  return {
    'bellwether.toml': settings,
    'tools.json': json(toolsFile()),
    ...Object.fromEntries(Object.entries(policies).map(([path, policy]) => [path, json(policy)])),
    ...agentFiles(programs, (_name, [script, description]) => programFile(script, description)),
    ...agentFiles(thinkers, (name, thinker) => thinkerFile(name, thinker, model)),
  }
}

function agentFiles<T>(all: Readonly<Record<string, T>>, textOf: (name: string, one: T) => string) {
  return Object.fromEntries(Object.entries(all).map(([name, one]) => [`agents/${name}.md`, textOf(name, one)]))
}

function each<T>(names: readonly string[], one: T): Record<string, T> {
  return Object.fromEntries(names.map((name) => [name, one]))
}
