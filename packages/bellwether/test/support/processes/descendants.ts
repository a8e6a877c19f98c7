/** The pids of all processes below a process, parents first. */
import { readProcesses } from '../../../src/ports/processes/proc.js'

export function descendants(pid: number): number[] {
  const processes = readProcesses()
  const below = (parent: number): number[] =>
    processes.filter((one) => one.parent === parent).flatMap((one) => [one.pid, ...below(one.pid)])
  return below(pid)
}
