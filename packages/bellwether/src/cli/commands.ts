/** The commands by name, in the order and the groups in which a newcomer meets them. Each is loaded when it is wanted. */
import type { Command } from 'commander'

export type Make = (finish: (code: number) => void) => Command

interface Entry {
  readonly about: string
  /** A tool for files has no use for a database driver, and should not wait for it. */
  readonly load: () => Promise<Make>
  /** Goes on without a reader of what it printed: a house does not end because a pipe did. */
  readonly lasting?: boolean
}

interface Group {
  readonly title: string
  readonly commands: Readonly<Record<string, Entry>>
}

export const groups: readonly Group[] = [
  {
    title: 'Begin',
    commands: {
      demo: {
        about: 'see a fleet at work, with real crashes; needs no key and no network',
        load: async () => (await import('./demo.js')).demoCommand,
        lasting: true,
      },
      init: {
        about: 'make a project folder: settings and two example agents',
        load: async () => (await import('./init.js')).initCommand,
      },
      up: {
        about: 'run everything here: database, workers, board, workspace view, dashboard',
        load: async () => (await import('./up.js')).upCommand,
        lasting: true,
      },
      doctor: {
        about: 'look for what keeps this folder from working, and how to mend it',
        load: async () => (await import('./doctor.js')).doctorCommand,
      },
      keys: {
        about: 'make, list, rotate and revoke API keys',
        load: async () => (await import('./keys.js')).keysCommand,
      },
    },
  },
  {
    title: 'Work',
    commands: {
      turn: {
        about: 'give an agent a turn; list, show, watch and stop turns',
        load: async () => (await import('./turn.js')).turnCommand,
      },
      task: {
        about: 'the board: add, do and watch tasks',
        load: async () => (await import('./task.js')).taskCommand,
      },
      questions: {
        about: 'what agents ask people: list, answer, decline',
        load: async () => (await import('./questions.js')).questionsCommand,
      },
      mcp: {
        about: 'let an MCP client drive a running house (stdio)',
        load: async () => (await import('./mcp.js')).mcpCommand,
      },
    },
  },
  {
    title: 'Look',
    commands: {
      agents: {
        about: 'who works on what, live with --watch',
        load: async () => (await import('./agents.js')).agentsCommand,
      },
      watchdog: {
        about: 'what the watchdogs did: what, when, why',
        load: async () => (await import('./watchdog.js')).watchdogCommand,
      },
      view: {
        about: 'the workspace: tree, search, stats, blind spots, sessions, changes',
        load: async () => (await import('./view.js')).viewCommand,
      },
    },
  },
  {
    title: 'Run parts alone, against [database] url',
    commands: {
      server: {
        about: 'the HTTP API, the dashboard, the board and workspace views',
        load: async () => (await import('./server.js')).serverCommand,
        lasting: true,
      },
      pmo: {
        about: 'the watchdogs, the relay of events and retention',
        load: async () => (await import('./pmo.js')).pmoCommand,
        lasting: true,
      },
      worker: {
        about: 'turns of one worker target',
        load: async () => (await import('./worker.js')).workerCommand,
        lasting: true,
      },
      sensor: {
        about: 'tell a server what is on this disk',
        load: async () => (await import('./sensor.js')).sensorCommand,
        lasting: true,
      },
    },
  },
  {
    title: 'Mend the files of a board',
    commands: {
      'recover-stale-locks': {
        about: 'remove locks whose owner is gone',
        load: async () => (await import('./recover-stale-locks.js')).recoverStaleLocksCommand,
      },
      'rebuild-snapshot': {
        about: 'write the snapshot anew from the log',
        load: async () => (await import('./rebuild-snapshot.js')).rebuildSnapshotCommand,
      },
      'restore-snapshot': {
        about: 'go back to an older snapshot',
        load: async () => (await import('./restore-snapshot.js')).restoreSnapshotCommand,
      },
      'migrate-config-v2': {
        about: 'bring policy files to version 2',
        load: async () => (await import('./migrate-config-v2.js')).migrateConfigCommand,
      },
    },
  },
]

export const commands: Readonly<Record<string, Entry>> = Object.assign(
  {},
  ...groups.map((group) => group.commands),
) as Record<string, Entry>
