/** All commands by name, in the groups and order of the help page. Each command is loaded when it runs. */
import type { Command } from 'commander'

export type Make = (finish: (code: number) => void) => Command

interface Entry {
  readonly about: string
  /** Loads the command, so that a file command does not wait for the database driver. A command may load only the typed verb. */
  readonly load: (verb?: string) => Promise<Make>
  /** Keeps running when the reader of its stdout goes away. */
  readonly longRunning?: boolean
}

interface Group {
  readonly title: string
  readonly commands: Readonly<Record<string, Entry>>
}

export const groups: readonly Group[] = [
  {
    title: 'Start',
    commands: {
      demo: {
        about: 'run a fleet with real crashes; needs no key and no network',
        load: async () => (await import('./start/demo.js')).demoCommand,
        longRunning: true,
      },
      init: {
        about: 'create a project folder: settings and two example agents',
        load: async () => (await import('./start/init.js')).initCommand,
      },
      up: {
        about: 'run everything here: database, workers, board, workspace view, dashboard',
        load: async () => (await import('./start/up.js')).upCommand,
        longRunning: true,
      },
      trust: {
        about: 'show what the files of this folder make `up` run, and accept it',
        load: async () => (await import('./start/trust.js')).trustCommand,
      },
      open: {
        about: 'open the dashboard in the browser, or print a one-time link',
        load: async () => (await import('./start/open.js')).openCommand,
      },
      doctor: {
        about: 'check the set-up of this folder and say what to fix',
        load: async () => (await import('./start/doctor.js')).doctorCommand,
      },
      login: {
        about: 'store the address and key of a server, for commands outside its folder',
        load: async () => (await import('./start/login.js')).loginCommand,
      },
      logout: { about: 'forget a stored server', load: async () => (await import('./start/login.js')).logoutCommand },
      keys: {
        about: 'create, list, rotate and revoke API keys',
        load: async () => (await import('./start/keys.js')).keysCommand,
      },
      targets: {
        about: 'the worker targets that a project may use: list, set',
        load: async () => (await import('./start/targets.js')).targetsCommand,
      },
    },
  },
  {
    title: 'Work',
    commands: {
      turn: {
        about: 'run a turn; list, show, watch, retry, replay, fork and stop turns',
        load: async () => (await import('./work/turn.js')).turnCommand,
      },
      task: {
        about: 'the board: add, dispatch and watch tasks',
        load: async (verb) => (await import('./work/task/task.js')).loadTask(verb),
      },
      schedule: {
        about: 'start turns and tasks by the clock: list, add, pause, run',
        load: async () => (await import('./work/schedule.js')).scheduleCommand,
      },
      eval: {
        about: 'run suites of recorded inputs with checks; compare agents, prompts and runs',
        load: async () => (await import('./work/eval.js')).evalCommand,
      },
      questions: {
        about: 'questions of agents to people: list, answer, decline',
        load: async () => (await import('./work/questions.js')).questionsCommand,
      },
      approvals: {
        about: 'calls that wait for a person: list, allow, deny; grants: list, revoke',
        load: async () => (await import('./work/approvals.js')).approvalsCommand,
      },
      mcp: {
        about: 'serve the tools of a running server to an MCP client (stdio)',
        load: async () => (await import('./work/mcp.js')).mcpCommand,
      },
    },
  },
  {
    title: 'Observe',
    commands: {
      agents: {
        about: 'all agents and what they are doing; live with --watch',
        load: async () => (await import('./observe/agents.js')).agentsCommand,
      },
      watchdog: {
        about: 'interventions of the watchdogs: when, what and why',
        load: async () => (await import('./observe/watchdog.js')).watchdogCommand,
      },
      quotas: {
        about: 'accounts that reached a limit, and spending limits: list, lift',
        load: async () => (await import('./observe/quotas.js')).quotasCommand,
      },
      trends: {
        about: 'turns, times, costs and queue over time; by agent, model or day, or as CSV',
        load: async () => (await import('./observe/trends.js')).trendsCommand,
      },
      logs: {
        about: 'the log of the `up` of this folder; live with --follow',
        load: async () => (await import('./observe/logs.js')).logsCommand,
      },
      view: {
        about: 'the workspace: tree, search, stats, blind spots, sessions, changes',
        load: async () => (await import('./observe/view/view.js')).viewCommand,
      },
    },
  },
  {
    title: 'Set up the shell',
    commands: {
      completion: {
        about: 'print a completion script for bash, zsh or fish',
        load: async () => (await import('./start/completion.js')).completionOf(groups),
      },
    },
  },
  {
    title: 'Run single parts, against [database] url',
    commands: {
      server: {
        about: 'the HTTP API, the dashboard, the board and workspace views',
        load: async () => (await import('./processes/server.js')).serverCommand,
        longRunning: true,
      },
      pmo: {
        about: 'the guard, the relay of events and retention',
        load: async () => (await import('./processes/pmo.js')).pmoCommand,
        longRunning: true,
      },
      worker: {
        about: 'the turns of one worker target',
        load: async () => (await import('./processes/worker.js')).workerCommand,
        longRunning: true,
      },
      sensor: {
        about: 'report a directory of this machine to a server',
        load: async () => (await import('./processes/sensor.js')).sensorCommand,
        longRunning: true,
      },
    },
  },
  {
    title: 'Repair the files of a board',
    commands: {
      'recover-stale-locks': {
        about: 'remove locks of dead processes',
        load: async () => (await import('./repair/recover-stale-locks.js')).recoverStaleLocksCommand,
      },
      'rebuild-snapshot': {
        about: 'rebuild the snapshot from the log',
        load: async () => (await import('./repair/rebuild-snapshot.js')).rebuildSnapshotCommand,
      },
      'restore-snapshot': {
        about: 'restore an older snapshot',
        load: async () => (await import('./repair/restore-snapshot.js')).restoreSnapshotCommand,
      },
      'migrate-config-v2': {
        about: 'migrate policy files to version 2',
        load: async () => (await import('./repair/migrate-config-v2.js')).migrateConfigCommand,
      },
    },
  },
]

export const commands: Readonly<Record<string, Entry>> = Object.assign(
  {},
  ...groups.map((group) => group.commands),
) as Record<string, Entry>
