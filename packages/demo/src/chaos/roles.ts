/** Finds the processes of the run by their role, from outside. */
import { familyOf, postmasterOf, readProcesses, type ProcessRow } from '../processes.js'
import type { Setup } from '../setup.js'
import type { Companions } from './companions.js'

export const roles = [
  'server',
  'worker',
  'function worker',
  'guardian',
  'cleaner',
  'sensor',
  'postmaster',
  'backend',
  'database',
  'machine',
] as const
export type Role = (typeof roles)[number]

export interface Processes {
  /** Every process of the run: servers, workers, guardians, commands, PostgreSQL. */
  all(): ProcessRow[]
  /** The groups of processes that have the role; a fault hits one group. */
  groups(role: Role): number[][]
}

const is = (word: string) => (row: ProcessRow) => row.command.some((part) => part.includes(word))

export function findProcesses({ server, folder }: Setup, companions: Companions): Processes {
  const read = (): { rows: ProcessRow[]; postmaster: number | undefined } => {
    const rows = readProcesses()
    const postmaster = postmasterOf(folder.dataDir)
    const roots = [server.info.pid, ...companions.functionWorkers(), ...companions.sensors(), postmaster ?? 0]
    return {
      rows: familyOf(
        rows,
        roots.filter((pid) => pid > 0),
      ),
      postmaster,
    }
  }
  const single = (rows: readonly ProcessRow[]) => rows.map(({ pid }) => [pid])
  return {
    all: () => read().rows,
    groups(role) {
      const { rows, postmaster = 0 } = read()
      const postgres = familyOf(rows, postmaster > 0 ? [postmaster] : [])
      const byRole: Readonly<Record<Role, () => number[][]>> = {
        server: () => (server.upSinceMs === undefined ? [] : [[server.info.pid]]),
        worker: () => server.workers().map((pid) => [pid]),
        'function worker': () => companions.functionWorkers().map((pid) => [pid]),
        guardian: () => single(rows.filter(is('guardian-main'))),
        cleaner: () => single(rows.filter(is('bellwether-cleaner'))),
        sensor: () => companions.sensors().map((pid) => [pid]),
        postmaster: () => (postmaster > 0 ? [[postmaster]] : []),
        backend: () => single(postgres.filter(({ pid }) => pid !== postmaster)),
        database: () => (postgres.length > 0 ? [postgres.map(({ pid }) => pid)] : []),
        machine: () => (rows.length > 0 ? [rows.map(({ pid }) => pid)] : []),
      }
      return byRole[role]()
    },
  }
}
