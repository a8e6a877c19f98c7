/**
 * The agents of the demo as the files of a project folder: agents, tools, policies and settings. Pure: texts by path. Only the
 * short timeouts are special; a copy of the folder runs with `bellwether up`.
 */
import type { DemoModel } from './real-model.js'

export const projectId = 'demo'
/** Two worker targets: agents that are models, and agents that are programs. */
export const targets = { models: 'models', programs: 'programs' } as const

export const actors = {
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
  sheetFolder: 'sheet-folder',
  sleeper: 'sleeper',
  jugglers: ['juggler-1', 'juggler-2', 'juggler-3', 'juggler-4'],
  echoes: ['echo-1', 'echo-2', 'echo-3'],
} as const

export const tools = {
  lookUp: 'look-up',
  save: 'save',
  lap: 'lap',
  barometer: 'barometer',
  juggle: 'juggle',
  /** Declared, but no host runs it. */
  pigeonPost: 'pigeon-post',
} as const

/** Environment variables that lead the workers to the fakes: an OpenAI-compatible server and HTTP tools, on loopback. */
export const fakeVariables = { url: 'DEMO_BASE_URL', key: 'DEMO_API_KEY', tools: 'DEMO_TOOLS_URL' } as const

export const laps = 12
/** The spender reports this use per task, which is above its limit. */
export const spenderTokens = 2_000
const spenderTokenLimit = 1_500

/** The timeouts are short, so that the watchdogs act within half a minute. The rules are those of production. */
const settings = `# Written by \`bellwether demo\`. docs/reference/settings.md explains every key. The timeouts are short, so that the watchdogs
# act within half a minute.
[server]
admin_commands = true

[worker]
inbox_processing_timeout_seconds = 8
watchdog_interval_seconds = 1
suspend_timeout_seconds = 4
resume_lease_seconds = 8
beat_seconds = 1
poll_seconds = 1
max_deaths = 10

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
    recoveryChain: [actors.boaster, actors.printer],
    default: { maxAttempts: 3, cooldownSec: 1 },
    reasonPolicies: { incomplete_output: { cooldownSec: 1 } },
  },
  'config/budget-policy.json': { agents: { [actors.spender]: { maxTaskTokens: spenderTokenLimit } } },
}

/** Shell code that finds the file named by the task, ignoring the rest of the prompt. */
const findPage = `f=$(sed -n '/^# Task/,$p' | grep -o 'pages/[a-z0-9-]*[.]txt' | head -1)`
const claim = `printf '{"summary":"set","files":["%s"]}' "$f"`

const programs: Readonly<Record<string, readonly [script: string, description: string]>> = {
  [actors.printer]: [`${findPage}; mkdir -p pages; date > "$f"; ${claim}`, 'Prints a page and names its file.'],
  [actors.boaster]: [`${findPage}; ${claim}`, 'Claims to have printed a page.'],
  [actors.sheetFolder]: [
    `read -r _; grep -q 'sheet 7 ' && exit 7; sleep 0.3; echo folded`,
    'Folds one sheet; fails on the seventh.',
  ],
  [actors.sleeper]: ['exec sleep 80', 'Sleeps until it is stopped.'],
  ...each(actors.echoes, ['cat > /dev/null; sleep 0.2; echo done', 'Answers at once.']),
}

interface ModelAgent {
  readonly tools?: readonly string[]
  readonly description: string
  readonly instructions: string
  /** Whether a real model may run it; the others always run from a script. */
  readonly mayBeReal?: boolean
}

const write = 'You write for a small newspaper. Two sentences are enough.'
const modelAgents: Readonly<Record<string, ModelAgent>> = {
  ...each(actors.writers, { description: 'Writes a paragraph.', instructions: write, mayBeReal: true }),
  ...each(actors.researchers, {
    tools: [tools.lookUp],
    description: 'Looks two things up in parallel.',
    instructions: 'Ask look-up who and when, once each, in one step. Then write one sentence about what you found.',
    mayBeReal: true,
  }),
  [actors.columnist]: {
    tools: [tools.save],
    description: 'Writes a column into a file.',
    instructions: `${write} Save the text with the tool save, under the path that the task names. Then answer with the JSON object that the task asks for, and nothing else.`,
    mayBeReal: true,
  },
  [actors.lead]: {
    tools: ['fork_join', 'delegate', 'ask_person'],
    description: 'Forks twelve children, delegates proof-reading, and asks a person.',
    instructions: 'You lead the evening edition.',
  },
  [actors.forker]: {
    tools: ['fork_join'],
    description: 'Forks four children.',
    instructions: 'You fold sheets with fork_join.',
  },
  [actors.proofReader]: { description: 'Proof-reads.', instructions: 'You find mistakes.' },
  [actors.weatherman]: {
    tools: [tools.barometer],
    description: 'Calls a tool that hangs.',
    instructions: 'You report the weather.',
  },
  [actors.pigeonKeeper]: {
    tools: [tools.pigeonPost],
    description: 'Calls a tool that no host runs.',
    instructions: 'You send word to Paris.',
  },
  [actors.marathon]: {
    tools: [tools.lap],
    description: `Runs ${laps} laps, one per step; its worker is killed on the way.`,
    instructions: 'You run.',
  },
  [actors.spender]: {
    tools: [tools.save],
    description: 'Exceeds its token budget.',
    instructions: 'You spare no expense.',
  },
  ...each(actors.jugglers, {
    tools: [tools.juggle],
    description: 'Calls a tool that hangs, is slow, fails, or reports twice.',
    instructions: 'You juggle.',
  }),
}

export function programFile(script: string, description: string, settings: readonly string[] = []): string {
  return `${[
    '---',
    `description: ${quoted(description)}`,
    `command: [sh, -c, ${quoted(script)}]`,
    `worker_target: ${targets.programs}`,
    ...settings,
    '---',
  ].join('\n')}
`
}

function modelFile(
  name: string,
  { tools: list, description, instructions, mayBeReal }: ModelAgent,
  model: DemoModel,
): string {
  const real = mayBeReal === true && model.real !== undefined
  const modelName = real ? model.real.name : `demo/${name.replace(/-\d+$/, '')}`
  // A real model costs money: the kernel limits each of its turns.
  const limits = real
    ? `max_output_tokens: ${model.real.maxOutputTokens}
budget:
  max_tokens: ${model.real.maxTokens}
  max_steps: 6
`
    : 'max_output_tokens: 500\n'
  return `---
description: ${quoted(description)}
model: ${modelName}
worker_target: ${targets.models}
context_tokens: 8000
${limits}${list === undefined ? '' : `tools: [${list.join(', ')}]\n`}---
${instructions}
`
}

/** A JSON string is also a YAML string. */
const quoted = (text: string) => JSON.stringify(text)

const text = { type: 'string' }
const parameters = (...names: readonly string[]) => ({
  type: 'object',
  required: names,
  properties: Object.fromEntries(names.map((name) => [name, text])),
})

function toolsFile(): object {
  const fake = (name: string, description: string, names: readonly string[], more: object = {}) => ({
    description,
    parameters: parameters(...names),
    url: `\${${fakeVariables.tools}}/${name}`,
    headers: { Authorization: `Bearer \${${fakeVariables.key}}` },
    timeout_seconds: 2,
    idempotent: true,
    allow_private: true,
    ...more,
  })
  return {
    tools: {
      [tools.lookUp]: fake(tools.lookUp, 'Looks something up.', ['question']),
      [tools.save]: fake(tools.save, 'Writes a file of the project.', ['path', 'text']),
      [tools.lap]: fake(tools.lap, 'Notes a lap.', ['lap']),
      // Not idempotent: it is not retried, and the turn gets the result `unknown`.
      [tools.barometer]: fake(tools.barometer, 'Reads the barometer.', ['place'], {
        timeout_seconds: 3,
        idempotent: false,
      }),
      [tools.juggle]: fake(tools.juggle, 'Throws a ball.', ['ball']),
    },
  }
}

/** Every file of the project folder, by path. */
export function projectFiles(model: DemoModel): Readonly<Record<string, string>> {
  const json = (value: object) => `${JSON.stringify(value, undefined, 2)}\n`
  return {
    'bellwether.toml': settings,
    'tools.json': json(toolsFile()),
    ...Object.fromEntries(Object.entries(policies).map(([path, policy]) => [path, json(policy)])),
    ...agentFiles(programs, (_name, [script, description]) => programFile(script, description)),
    ...agentFiles(modelAgents, (name, agent) => modelFile(name, agent, model)),
  }
}

function agentFiles<T>(all: Readonly<Record<string, T>>, textOf: (name: string, one: T) => string) {
  return Object.fromEntries(Object.entries(all).map(([name, one]) => [`agents/${name}.md`, textOf(name, one)]))
}

function each<T>(names: readonly string[], one: T): Record<string, T> {
  return Object.fromEntries(names.map((name) => [name, one]))
}
